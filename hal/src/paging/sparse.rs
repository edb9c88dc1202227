//! Pages that come one by one and without a lock, as those of a stack that
//! grows: a page fault may come while any lock is held.
//!
//! The tables of such a range are made beforehand and stay for good; from then
//! on each of its entries is changed in one step, and only by whoever owns the
//! range.

use super::{Access, Entry, FrameSource, KERNEL_ROOT, MapError, Space, index, span};
use crate::{
    arch::paging as entry,
    layout::{self, PAGE},
};
use core::sync::atomic::{AtomicU64, Ordering::*};

impl Space {
    /// Makes those tables of the range that are not there yet, down to the last level.
    pub fn prepare(
        &mut self,
        virt: usize,
        length: usize,
        frames: FrameSource<'_>,
    ) -> Result<(), MapError> {
        let mut at = virt;
        while at < virt + length {
            self.table_at(at, 0, frames)?;
            at = next_table(at);
        }
        entry::after_map();
        Ok(())
    }

    /// Maps one page of a prepared range.
    pub fn fill(&self, at: usize, phys: u64, access: Access) -> Result<(), MapError> {
        let slot = self.slot(self.last_table(at)?, index(at, 0));
        // Release: another core's walker that sees the entry sees what is in the frame.
        slot.compare_exchange(0, entry::leaf(phys, access, 0), Release, Relaxed)
            .map_err(|_| MapError::Taken(at))?;
        entry::after_map();
        Ok(())
    }

    /// Takes out all pages of a prepared range that are there, lowest first;
    /// `freed` gets the frame of each. Known to all cores as for
    /// [`unmap`](Self::unmap).
    pub fn clear(&self, virt: usize, length: usize, mut freed: impl FnMut(u64)) {
        self.for_each_filled(virt, length, |at, slot, phys| {
            slot.store(0, Relaxed);
            entry::flush_page(at);
            freed(phys);
        });
    }

    /// How many pages of a prepared range are there.
    pub fn count(&self, virt: usize, length: usize) -> usize {
        let mut count = 0;
        self.for_each_filled(virt, length, |_, _, _| count += 1);
        count
    }

    fn for_each_filled(
        &self,
        virt: usize,
        length: usize,
        mut visit: impl FnMut(usize, &AtomicU64, u64),
    ) {
        let mut at = virt;
        while at < virt + length {
            let end = next_table(at).min(virt + length);
            if let Ok(table) = self.last_table(at) {
                for page in (at..end).step_by(PAGE) {
                    let slot = self.slot(table, index(page, 0));
                    if let Entry::Leaf(phys, _) = entry::decode(slot.load(Relaxed), 0) {
                        visit(page, slot, phys);
                    }
                }
            }
            at = end;
        }
    }
}

/// First address behind the last-level table of `at`.
fn next_table(at: usize) -> usize {
    (at & !(span(1) - 1)) + span(1)
}

/// The kernel's address space, for what needs no lock.
fn kernel() -> Space {
    // SAFETY: `adopt` stored it, whose caller promised that it is the table in use; what is done
    // with a `&Space` may be done by several at once.
    unsafe { Space::new(KERNEL_ROOT.load(Relaxed), layout::DIRECT_MAP) }
}

/// Makes the tables of a range of the kernel's address space.
pub(crate) fn prepare(virt: usize, length: usize) -> Result<(), MapError> {
    super::with_kernel(|space| space.prepare(virt, length, &mut super::frame))
}

/// Gives a page of a prepared range memory for data. Takes no lock.
pub(crate) fn fill(at: usize, phys: u64) -> Result<(), MapError> {
    kernel().fill(at, phys, Access::ReadWrite)
}

/// Whether the page at `at` of a prepared range is there. Takes no lock.
pub(crate) fn is_filled(at: usize) -> bool {
    kernel().translate(at).is_some()
}

/// Takes the pages of a prepared range out; whoever reuses the range or a frame
/// first draws a ticket and waits until it is done. Takes no lock.
///
/// # Safety
/// Nobody uses those pages any more.
pub(crate) unsafe fn clear(virt: usize, length: usize, freed: impl FnMut(u64)) {
    kernel().clear(virt, length, freed);
}

/// How many pages of a prepared range are there. Takes no lock.
pub(crate) fn count(virt: usize, length: usize) -> usize {
    kernel().count(virt, length)
}
