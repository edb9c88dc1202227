//! Temporary.
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
static NEXT: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);
pub fn init(regions: impl Iterator<Item = (u64, u64)>) {
    for (s, e) in regions { if e - s > END.load(Relaxed) - NEXT.load(Relaxed) { NEXT.store(s, Relaxed); END.store(e, Relaxed); } }
}
pub fn alloc_frame() -> Option<u64> { let f = NEXT.fetch_add(4096, Relaxed); unsafe { core::ptr::write_bytes(hal::layout::phys_to_virt(f) as *mut u8, 0, 4096) }; Some(f) }
pub struct Stats { pub frames_free: usize, pub live_bytes: usize }
pub fn stats() -> Stats { Stats { frames_free: 0, live_bytes: 0 } }
impl core::fmt::Display for Stats { fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result { write!(f, "-") } }
struct Bump;
unsafe impl core::alloc::GlobalAlloc for Bump {
    unsafe fn alloc(&self, l: core::alloc::Layout) -> *mut u8 { let n = (l.size() as u64 + 15) & !15; (hal::layout::phys_to_virt(NEXT.fetch_add((n + 4095) & !4095, Relaxed))) as *mut u8 }
    unsafe fn dealloc(&self, _: *mut u8, _: core::alloc::Layout) {}
}
#[cfg(target_os = "none")]
#[global_allocator]
static H: Bump = Bump;
