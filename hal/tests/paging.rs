//! Tests of the page table logic on the host, over a buffer that stands for
//! physical memory.
#![cfg(not(loom))]

use hal::{
    layout::PAGE,
    paging::{Access, MapError, Space},
};

const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
/// An address of the upper half, on a 1 GiB boundary.
const VIRT: usize = 0xffff_d000_4000_0000;

/// Page tables in a buffer that plays the physical memory from 64 KiB on.
struct Machine {
    space: Space,
    frames_left: usize,
    next: u64,
    /// What `space` reads and writes.
    _memory: Vec<Frame>,
}

#[repr(align(4096))]
#[derive(Clone)]
struct Frame([u8; PAGE]);

impl Machine {
    const FIRST: u64 = 0x1_0000;

    fn new(frames: usize) -> Self {
        let memory = vec![Frame([0; PAGE]); frames + 1];
        let at = memory.as_ptr().expose_provenance();
        assert_eq!(memory[0].0[0], 0);
        // SAFETY: the buffer's first page is a zeroed table, and all others that are handed out follow it.
        let space = unsafe { Space::new(Self::FIRST, at - Self::FIRST as usize) };
        Self {
            space,
            frames_left: frames,
            next: Self::FIRST,
            _memory: memory,
        }
    }

    fn map(
        &mut self,
        virt: usize,
        phys: u64,
        length: usize,
        access: Access,
    ) -> Result<(), MapError> {
        let Self {
            space,
            frames_left,
            next,
            ..
        } = self;
        space.map(virt, phys, length, access, &mut || {
            Self::frame(frames_left, next)
        })
    }

    fn prepare(&mut self, virt: usize, length: usize) -> Result<(), MapError> {
        let Self {
            space,
            frames_left,
            next,
            ..
        } = self;
        space.prepare(virt, length, &mut || Self::frame(frames_left, next))
    }

    fn frame(left: &mut usize, next: &mut u64) -> Option<u64> {
        *left = left.checked_sub(1)?;
        *next += PAGE as u64;
        Some(*next)
    }

    fn list(&self) -> Vec<(usize, u64, usize, Option<Access>)> {
        let mut list = Vec::new();
        self.space
            .walk(&mut |virt, phys, length, access| list.push((virt, phys, length, access)));
        list
    }
}

#[test]
fn what_is_mapped_is_found_with_its_access_and_nothing_else_is() {
    let mut machine = Machine::new(16);
    for (i, access) in [
        Access::ReadOnly,
        Access::ReadWrite,
        Access::ReadExecute,
        Access::Device,
    ]
    .into_iter()
    .enumerate()
    {
        let offset = i * 2 * PAGE;
        machine
            .map(VIRT + offset, 0x5000_0000 + offset as u64, PAGE, access)
            .unwrap();
        assert_eq!(
            machine.space.translate(VIRT + offset + 0x123),
            Some((0x5000_0123 + offset as u64, Some(access)))
        );
        assert_eq!(machine.space.translate(VIRT + offset + PAGE), None);
    }
    assert_eq!(machine.list().len(), 4);
}

#[test]
fn the_largest_blocks_that_fit_are_used() {
    let mut machine = Machine::new(16);
    let virt = VIRT - PAGE;
    let phys = (2 * GIB - PAGE) as u64;
    let length = PAGE + GIB + 2 * MIB + PAGE;
    machine.map(virt, phys, length, Access::ReadWrite).unwrap();
    let access = Some(Access::ReadWrite);
    assert_eq!(
        machine.list(),
        [
            (virt, phys, PAGE, access),
            (VIRT, phys + PAGE as u64, GIB, access),
            (VIRT + GIB, (3 * GIB) as u64, 2 * MIB, access),
            (
                VIRT + GIB + 2 * MIB,
                (3 * GIB + 2 * MIB) as u64,
                PAGE,
                access
            ),
        ]
    );
    assert_eq!(
        machine.space.translate(VIRT + 0x1234_5678),
        Some((2 * GIB as u64 + 0x1234_5678, access))
    );
    assert_eq!(machine.space.translate(virt + length), None);
}

#[test]
fn blocks_are_not_used_where_the_physical_address_is_not_aligned() {
    let mut machine = Machine::new(16);
    machine
        .map(VIRT, PAGE as u64, 2 * MIB, Access::ReadOnly)
        .unwrap();
    assert_eq!(machine.list().len(), 512);
    assert_eq!(
        machine.space.translate(VIRT + 2 * MIB - 1),
        Some((PAGE as u64 + 2 * MIB as u64 - 1, Some(Access::ReadOnly)))
    );
}

#[test]
fn unmapping_returns_each_frame_once_and_leaves_the_neighbours() {
    let mut machine = Machine::new(16);
    machine
        .map(VIRT, 0x70_0000, 4 * PAGE, Access::ReadWrite)
        .unwrap();
    let mut freed = Vec::new();
    machine
        .space
        .unmap(VIRT + PAGE, 2 * PAGE, |frame| freed.push(frame))
        .unwrap();
    assert_eq!(freed, [0x70_1000, 0x70_2000]);
    assert!(machine.space.translate(VIRT).is_some());
    assert_eq!(machine.space.translate(VIRT + PAGE), None);
    assert_eq!(machine.space.translate(VIRT + 2 * PAGE), None);
    assert!(machine.space.translate(VIRT + 3 * PAGE).is_some());
    assert_eq!(
        machine.space.unmap(VIRT + PAGE, PAGE, |_| unreachable!()),
        Err(MapError::NotMapped(VIRT + PAGE))
    );
    machine
        .map(VIRT + PAGE, 0x90_0000, PAGE, Access::ReadOnly)
        .unwrap();
    assert_eq!(
        machine.space.translate(VIRT + PAGE),
        Some((0x90_0000, Some(Access::ReadOnly)))
    );
}

#[test]
fn protecting_changes_the_access_and_keeps_the_frame() {
    let mut machine = Machine::new(16);
    machine
        .map(VIRT, 0x70_0000, 2 * PAGE, Access::ReadWrite)
        .unwrap();
    machine
        .space
        .protect(VIRT, PAGE, Access::ReadExecute)
        .unwrap();
    assert_eq!(
        machine.space.translate(VIRT),
        Some((0x70_0000, Some(Access::ReadExecute)))
    );
    assert_eq!(
        machine.space.translate(VIRT + PAGE),
        Some((0x70_1000, Some(Access::ReadWrite)))
    );
}

#[test]
fn mapping_over_something_is_refused_at_every_level() {
    let mut machine = Machine::new(16);
    machine.map(VIRT, 0, GIB, Access::ReadWrite).unwrap();
    machine
        .map(VIRT + GIB, 0, 2 * MIB, Access::ReadWrite)
        .unwrap();
    machine
        .map(VIRT + GIB + 2 * MIB, 0, PAGE, Access::ReadWrite)
        .unwrap();
    for inside in [VIRT + PAGE, VIRT + GIB + PAGE, VIRT + GIB + 2 * MIB] {
        assert_eq!(
            machine.map(inside, 0, PAGE, Access::ReadWrite),
            Err(MapError::Taken(inside))
        );
    }
    // A block where a table is, because something smaller lives below it.
    assert_eq!(
        machine.map(VIRT + GIB, 0, GIB, Access::ReadWrite),
        Err(MapError::Taken(VIRT + GIB))
    );
}

#[test]
fn large_blocks_are_not_cut() {
    let mut machine = Machine::new(16);
    machine.map(VIRT, 0, 2 * MIB, Access::ReadWrite).unwrap();
    assert_eq!(
        machine.space.unmap(VIRT, PAGE, |_| ()),
        Err(MapError::InsideBlock(VIRT))
    );
    assert_eq!(
        machine.space.protect(VIRT + PAGE, PAGE, Access::ReadOnly),
        Err(MapError::InsideBlock(VIRT + PAGE))
    );
    assert_eq!(
        machine.space.translate(VIRT),
        Some((0, Some(Access::ReadWrite)))
    );
}

#[test]
fn odd_addresses_and_lengths_are_refused() {
    let mut machine = Machine::new(16);
    for (virt, phys, length) in [(VIRT + 1, 0, PAGE), (VIRT, 8, PAGE), (VIRT, 0, PAGE + 16)] {
        assert_eq!(
            machine.map(virt, phys, length, Access::ReadOnly),
            Err(MapError::NotAligned)
        );
    }
    assert_eq!(
        machine.space.unmap(VIRT + 1, PAGE, |_| ()),
        Err(MapError::NotAligned)
    );
    assert_eq!(machine.list(), []);
}

#[test]
fn running_out_of_tables_is_an_error_and_what_was_mapped_stays() {
    // Three tables lead to a page: enough for one stretch, not for one far away.
    let mut machine = Machine::new(3);
    machine.map(VIRT, 0, PAGE, Access::ReadWrite).unwrap();
    assert_eq!(
        machine.map(VIRT + 512 * GIB, 0, PAGE, Access::ReadWrite),
        Err(MapError::OutOfFrames)
    );
    machine
        .map(VIRT + PAGE, 0x5000, PAGE, Access::ReadWrite)
        .unwrap();
    assert_eq!(machine.list().len(), 2);
}

#[test]
fn both_halves_of_the_address_space_are_walked_with_whole_addresses() {
    let mut machine = Machine::new(16);
    machine
        .map(0x4000_0000, 0x1000, PAGE, Access::ReadOnly)
        .unwrap();
    machine.map(VIRT, 0x2000, PAGE, Access::ReadOnly).unwrap();
    let addresses: Vec<_> = machine.list().iter().map(|entry| entry.0).collect();
    assert_eq!(addresses, [0x4000_0000, VIRT]);
}

#[test]
fn pages_of_a_prepared_range_come_and_go_one_by_one() {
    let mut machine = Machine::new(8);
    // In three tables of the last level.
    let (virt, length) = (VIRT + 2 * MIB - 3 * PAGE, 2 * MIB + 4 * PAGE);
    let fill = |machine: &Machine, page: usize| {
        let phys = 0x5000_0000 + (page * PAGE) as u64;
        machine
            .space
            .fill(virt + page * PAGE, phys, Access::ReadWrite)
    };
    assert_eq!(fill(&machine, 0), Err(MapError::NotMapped(virt)));
    machine.prepare(virt, length).unwrap();
    let tables = machine.frames_left;
    assert_eq!((8 - tables, machine.list().len()), (5, 0));
    machine.prepare(virt, length).unwrap();
    assert_eq!(machine.frames_left, tables, "they are there already");
    let pages = [0, 2, 3, 400, length / PAGE - 1];
    for page in pages {
        fill(&machine, page).unwrap();
        let at = virt + page * PAGE;
        assert_eq!(fill(&machine, page), Err(MapError::Taken(at)));
    }
    assert_eq!(machine.space.count(virt, length), pages.len());
    assert_eq!(machine.space.count(virt, 3 * PAGE), 2);
    let mut freed = Vec::new();
    machine.space.clear(virt, length, |phys| {
        freed.push((phys - 0x5000_0000) as usize / PAGE)
    });
    assert_eq!(freed, pages, "lowest first");
    assert_eq!((machine.list().len(), machine.frames_left), (0, tables));
    fill(&machine, 2).unwrap();
}

#[test]
fn a_range_can_be_prepared_later_if_there_were_too_few_frames() {
    let mut machine = Machine::new(4);
    assert_eq!(
        machine.prepare(VIRT, 6 * MIB),
        Err(MapError::OutOfFrames),
        "two above, two below, and one that is missing"
    );
    assert_eq!(machine.prepare(VIRT, 4 * MIB), Ok(()));
}
