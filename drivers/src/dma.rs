//! Memory that a device reads and writes: whole pages, physically contiguous, with an owner.
//!
//! The device may change it at any time, whatever it was told: so nothing here gives a reference to it. Words are read and written one by one, bytes are
//! copied, and who reads a word twice may see two values.

use alloc::alloc::{alloc_zeroed, dealloc};
use core::{alloc::Layout, ptr::NonNull};
use executor::NoMemory;
use hal::{dma, layout::PAGE};

/// Pages that a device sees. They are freed when this is dropped: not before the device is quiet.
pub struct Dma {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns its pages, and has no reference to them.
unsafe impl Send for Dma {}
// SAFETY: `&self` only reads and writes single words or copies bytes, all volatile, as a device does at the same time: whoever shares it must
// expect that of any other.
unsafe impl Sync for Dma {}

impl Dma {
    /// At least `length` bytes of zeros.
    pub fn new(length: usize) -> Result<Self, NoMemory> {
        let length = length.max(1).next_multiple_of(PAGE);
        let layout = Layout::from_size_align(length, PAGE).map_err(|_| NoMemory)?;
        // SAFETY: it is not of length 0.
        let at = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(NoMemory)?;
        Ok(Self { at, length })
    }

    /// How many bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Where a device finds the byte at `offset`.
    pub fn physical(&self, offset: usize) -> u64 {
        assert!(offset < self.length, "behind the end");
        dma::physical(self.at.as_ptr()) + offset as u64
    }

    /// It is never freed: a device may still use it.
    pub fn leak(self) {
        core::mem::forget(self);
    }

    #[track_caller]
    fn word<T>(&self, offset: usize) -> *mut T {
        let fits = offset <= self.length && self.length - offset >= size_of::<T>();
        assert!(fits, "behind the end");
        assert!(offset.is_multiple_of(size_of::<T>()), "not aligned");
        // SAFETY: that is within the allocation.
        unsafe { self.at.as_ptr().add(offset).cast() }
    }

    /// Reads 8 bits.
    pub fn read8(&self, offset: usize) -> u8 {
        // SAFETY: `word` has seen that it is whole and aligned; volatile, as a device writes it too.
        unsafe { self.word::<u8>(offset).read_volatile() }
    }

    /// Reads 16 bits, of which the lower come first.
    pub fn read16(&self, offset: usize) -> u16 {
        // SAFETY: as for `read8`.
        u16::from_le(unsafe { self.word::<u16>(offset).read_volatile() })
    }

    /// Reads 32 bits, of which the lower come first.
    pub fn read32(&self, offset: usize) -> u32 {
        // SAFETY: as for `read8`.
        u32::from_le(unsafe { self.word::<u32>(offset).read_volatile() })
    }

    /// Writes 8 bits.
    pub fn write8(&self, offset: usize, value: u8) {
        // SAFETY: as for `read8`.
        unsafe { self.word::<u8>(offset).write_volatile(value) }
    }

    /// Writes 16 bits, the lower first.
    pub fn write16(&self, offset: usize, value: u16) {
        // SAFETY: as for `read8`.
        unsafe { self.word::<u16>(offset).write_volatile(value.to_le()) }
    }

    /// Writes 32 bits, the lower first.
    pub fn write32(&self, offset: usize, value: u32) {
        // SAFETY: as for `read8`.
        unsafe { self.word::<u32>(offset).write_volatile(value.to_le()) }
    }

    /// Writes 64 bits, the lower first.
    pub fn write64(&self, offset: usize, value: u64) {
        // SAFETY: as for `read8`.
        unsafe { self.word::<u64>(offset).write_volatile(value.to_le()) }
    }

    #[track_caller]
    fn bytes(&self, offset: usize, length: usize) -> *mut u8 {
        let fits = offset <= self.length && self.length - offset >= length;
        assert!(fits, "behind the end");
        // SAFETY: that is within the allocation.
        unsafe { self.at.as_ptr().add(offset) }
    }

    /// Copies bytes out, each of which is read once: they stay as they are then, whatever the device does.
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) {
        let from = self.bytes(offset, to.len());
        let (words, rest) = to.as_chunks_mut::<8>();
        let count = words.len();
        for (index, word) in words.iter_mut().enumerate() {
            // SAFETY: `bytes` has seen that all of it is within; volatile, so that it is read here and once.
            *word = unsafe { from.cast::<[u8; 8]>().add(index).read_volatile() };
        }
        for (index, byte) in rest.iter_mut().enumerate() {
            // SAFETY: as above.
            *byte = unsafe { from.add(8 * count + index).read_volatile() };
        }
    }

    /// Copies bytes in.
    pub fn copy_in(&self, offset: usize, from: &[u8]) {
        let to = self.bytes(offset, from.len());
        let (words, rest) = from.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            // SAFETY: `bytes` has seen that all of it is within.
            unsafe { to.cast::<[u8; 8]>().add(index).write_volatile(*word) };
        }
        for (index, byte) in rest.iter().enumerate() {
            // SAFETY: as above.
            unsafe { to.add(8 * words.len() + index).write_volatile(*byte) };
        }
    }
}

impl Drop for Dma {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated it with this very layout.
        unsafe {
            dealloc(
                self.at.as_ptr(),
                Layout::from_size_align_unchecked(self.length, PAGE),
            )
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_their_number() {
        let memory = Dma::new(100).unwrap();
        assert_eq!(memory.length(), PAGE);
        let bytes: Vec<u8> = (0..100).collect();
        for length in 0..40 {
            for offset in 0..10 {
                memory.copy_in(offset, &bytes[..length]);
                let mut out = vec![0; length];
                memory.copy_out(offset, &mut out);
                assert_eq!(out, bytes[..length]);
            }
        }
        memory.write32(8, 0x0403_0201);
        assert_eq!((memory.read8(9), memory.read16(10)), (2, 0x0403));
    }

    #[test]
    #[should_panic(expected = "behind the end")]
    fn nothing_behind_the_end_is_touched() {
        Dma::new(PAGE).unwrap().copy_in(PAGE - 7, &[0; 8]);
    }
}
