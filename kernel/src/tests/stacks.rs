//! Stacks that come and go: they grow, overflow, and give back what they had.

use crate::{aside, cores::on_all, mem, upcalls};
use alloc::vec::Vec;
use core::{
    hint::black_box,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*},
};
use hal::{
    clock,
    context::{self, AfterSwitch, ContextBlock},
    cores, irq,
    layout::PAGE,
    preempt, probe,
    stack::{self, Bounds, DEFAULT_SIZE, FIRST, NoMemory, Stack},
    sync::Lock,
};
use testing::kernel_test;

fn make(size: usize) -> Stack {
    Stack::new(size).expect("memory for a stack")
}

fn free_frames() -> usize {
    mem::frames().stats().free
}

/// Goes down to `end` and back; every frame must find what it left.
#[inline(never)]
fn descend(depth: u64, end: usize) {
    let here = black_box([depth; 32]);
    if &raw const here as usize > end {
        descend(depth + 1, end);
    }
    assert!(black_box(&here).iter().all(|&word| word == depth));
}

fn descend_all(size: usize) {
    let stack = make(size);
    assert_eq!(stack.memory(), FIRST);
    // The last page is reached, and has room for what is called last.
    aside::run(&stack, &|| descend(0, stack.bounds().low + 1024));
    assert_eq!(stack.memory(), size, "every page was in use");
}

#[kernel_test(limit = 60)]
fn a_stack_grows_to_its_end_on_all_cores_while_timers_tick() {
    fn tick() {
        clock::arm(clock::now() + 100_000);
    }
    upcalls::set_timer_hook(Some(tick));
    on_all(&|_| {
        tick();
        for _ in 0..5 {
            descend_all(DEFAULT_SIZE);
        }
        descend_all(16 * PAGE);
        descend_all(3 << 20);
    });
    upcalls::set_timer_hook(None);
    on_all(&|_| clock::disarm());
}

/// Uses the next `count` pages below what a new stack has.
fn grow(stack: &Stack, count: usize) {
    let high = stack.bounds().high - FIRST;
    for page in 1..=count {
        // SAFETY: it is in the room of the stack that this runs on, below all that is in use.
        unsafe { ((high - page * PAGE) as *mut u64).write_volatile(page as u64) };
    }
    assert_eq!(stack.memory(), FIRST + count * PAGE);
}

/// Runs `work` on a new stack, on each core, many times; `work` uses up this core's reserve.
fn use_up_reserves(work: &(dyn Fn(&Stack, usize) + Sync)) {
    on_all(&|core| {
        let full = stack::ready();
        assert!(full > 0, "core {core} has no reserve");
        for _ in 0..50 {
            let stack = make(DEFAULT_SIZE);
            aside::run(&stack, &|| work(&stack, full));
        }
    });
}

#[kernel_test(limit = 60)]
fn a_stack_grows_under_a_guard_and_the_reserve_is_filled_when_it_is_dropped() {
    use_up_reserves(&|stack, full| {
        let (outer, inner) = (preempt::guard(), preempt::guard());
        grow(stack, full);
        assert_eq!(stack::ready(), 0);
        drop(inner);
        assert_eq!(stack::ready(), 0, "a guard is left");
        drop(outer);
        assert_eq!(stack::ready(), full);
    });
}

#[kernel_test(limit = 60)]
fn a_reserve_is_filled_wherever_the_stack_ends_its_memory() {
    on_all(&|_| {
        let full = stack::ready();
        for left in (0..PAGE).step_by(32) {
            // A stack that begins so far down that it has only so much memory left.
            let stack = make(DEFAULT_SIZE);
            let Bounds { low, high } = stack.bounds();
            aside::run_from(&stack, high - FIRST + left, &|| {
                let guard = preempt::guard();
                let mut page = low;
                while stack::ready() > 0 {
                    // SAFETY: it is in the room of the stack that this runs on, far below all that is in use.
                    unsafe { (page as *mut u64).write_volatile(1) };
                    page += PAGE;
                }
                // What fills it takes a lock, under which the stack could not grow.
                drop(guard);
            });
            while stack::ready() < full {
                hal::pause();
            }
        }
    });
}

#[kernel_test(limit = 60)]
fn a_stack_grows_with_interrupts_masked_and_the_reserve_is_filled_soon_after() {
    let filled = |full| {
        while stack::ready() < full {
            hal::pause();
        }
    };
    use_up_reserves(&|stack, full| {
        let masked = irq::mask();
        grow(stack, full);
        assert_eq!(stack::ready(), 0);
        drop(masked);
        filled(full);
    });
    // A lock is a mask; and a guard in a mask, and a mask in a guard.
    use_up_reserves(&|stack, full| {
        let lock = Lock::new(());
        let held = lock.lock();
        let guard = preempt::guard();
        grow(stack, full);
        drop(guard);
        assert_eq!(stack::ready(), 0, "the lock is held");
        drop(held);
        filled(full);
    });
    use_up_reserves(&|stack, full| {
        let guard = preempt::guard();
        let masked = irq::mask();
        grow(stack, full);
        drop(masked);
        assert_eq!(stack::ready(), 0, "a guard is left");
        drop(guard);
        assert_eq!(stack::ready(), full);
    });
}

/// A context that only goes home, again and again, and who waits there.
struct Visited {
    block: ContextBlock,
    home: AtomicPtr<ContextBlock>,
}

extern "C" fn go_home(visited: usize) -> ! {
    // SAFETY: the test keeps it as long as it switches to this context.
    let visited = unsafe { &*core::ptr::with_exposed_provenance::<Visited>(visited) };
    let mark = |i: usize| 0x1111_1111_1111 * (i as u64 + 1);
    loop {
        // Values that live in callee-saved registers across the switch.
        let marks: [u64; 6] = core::array::from_fn(|i| black_box(mark(i)));
        let home = NonNull::new(visited.home.load(Relaxed)).expect("set before");
        // SAFETY: interrupts are masked from the start on, and the test waits to be resumed.
        unsafe { context::switch(home, HUNGRY) };
        for (i, value) in marks.into_iter().enumerate() {
            assert_eq!(value, mark(i), "a register was lost");
        }
    }
}

/// An action that needs more of a stack than a context may have left.
const HUNGRY: AfterSwitch = {
    extern "C" fn eat(_: usize) {
        black_box([1u8; 3000]);
    }
    AfterSwitch {
        run: eat,
        argument: 0,
    }
};

#[kernel_test(limit = 60)]
fn a_stack_may_end_its_memory_anywhere_around_a_switch() {
    on_all(&|_| {
        let full = stack::ready();
        for left in (0..1024).step_by(16) {
            // A stack that begins so far down that it has only so much memory left.
            let stack = make(16 * PAGE);
            let Bounds { low, high } = stack.bounds();
            let high = high - FIRST + left;
            let visited = Visited {
                block: ContextBlock::new(),
                home: AtomicPtr::new(core::ptr::from_ref(context::current()).cast_mut()),
            };
            let argument = (&raw const visited).expose_provenance();
            // SAFETY: it does not run yet, and the stack is its own.
            unsafe {
                visited
                    .block
                    .prepare(Bounds { low, high }, go_home, argument)
            };
            let masked = irq::mask();
            for _ in 0..3 {
                // SAFETY: interrupts are masked, the context is fresh or has gone home, and it lives.
                unsafe { context::switch(NonNull::from(&visited.block), HUNGRY) };
            }
            drop(masked);
            while stack::ready() < full {
                hal::pause();
            }
        }
    });
}

#[kernel_test]
fn below_a_stack_is_nothing_and_a_probe_gives_it_no_memory() {
    // Side by side: below one may be the next.
    let stacks = [DEFAULT_SIZE, 5 * PAGE, DEFAULT_SIZE, DEFAULT_SIZE].map(make);
    for stack in &stacks {
        let bounds = stack.bounds();
        aside::run(stack, &|| {
            assert!(probe::read(bounds.low - 8).is_err());
            assert!(bounds.is_overflow(bounds.low - 8));
            assert!(probe::read(bounds.low).is_err(), "not used yet");
            assert!(bounds.contains(bounds.low) && !bounds.is_overflow(bounds.low));
        });
        assert_eq!(stack.memory(), FIRST);
    }
}

/// Writes a number to both ends of what a new stack has, where another test would find it.
fn mark(stack: &Stack, number: u64) {
    for at in ends(stack) {
        // SAFETY: the stack has this memory, and nothing runs on it.
        unsafe { at.write_volatile(number) };
    }
}

fn is_marked(stack: &Stack, number: u64) -> bool {
    // SAFETY: as above.
    ends(stack)
        .into_iter()
        .all(|at| unsafe { at.read_volatile() } == number)
}

fn ends(stack: &Stack) -> [*mut u64; 2] {
    let high = stack.bounds().high;
    [high - 8, high - FIRST].map(|at| at as *mut u64)
}

#[kernel_test(limit = 300)]
fn ten_thousand_stacks_live_at_once_and_give_all_memory_back() {
    const COUNT: usize = 10_000;
    let live_and_die = || {
        let mut stacks = Vec::with_capacity(COUNT);
        for number in 0..COUNT {
            let stack = make(DEFAULT_SIZE);
            mark(&stack, number as u64);
            stacks.push(stack);
        }
        for (number, stack) in stacks.iter().enumerate() {
            assert!(is_marked(stack, number as u64), "{stack:?} is shared");
            assert_eq!(stack.memory(), FIRST);
        }
        let highest = stacks.iter().map(|stack| stack.bounds().high).max();
        drop(stacks);
        stack::collect();
        (free_frames(), highest)
    };
    stack::collect();
    let before = free_frames();
    let after = live_and_die();
    // Each two slots share a page table, which stays; there are few tables above those.
    assert!(before - after.0 <= COUNT / 2 + 16, "frames were lost");
    for _ in 0..2 {
        assert_eq!(live_and_die(), after, "the same slots, and no frame less");
    }
}

#[kernel_test(limit = 60)]
fn cores_that_sleep_do_not_keep_memory_from_coming_back() {
    // All others are in the lot, asleep, and nobody waits for them.
    let before = free_frames();
    let stacks: Vec<Stack> = (0..1_000).map(|_| make(DEFAULT_SIZE)).collect();
    drop(stacks);
    // They had two thousand frames, and for good up to five hundred tables: most of it is back soon.
    while free_frames() + 1_000 < before {
        drop(make(DEFAULT_SIZE));
    }
    stack::collect();
}

#[kernel_test(limit = 60)]
fn stacks_that_come_and_go_on_all_cores_share_no_memory() {
    on_all(&|core| {
        let mut stacks: [Option<(Stack, u64)>; 12] = [const { None }; 12];
        let mut random = core as u64 + 1;
        for turn in 0..2_000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            let place = &mut stacks[(random >> 33) as usize % 12];
            match place.take() {
                Some((stack, number)) => assert!(is_marked(&stack, number), "{stack:?} is shared"),
                None => {
                    let (stack, number) = (make(DEFAULT_SIZE), (core as u64) << 32 | turn);
                    mark(&stack, number);
                    *place = Some((stack, number));
                }
            }
        }
    });
}

#[kernel_test(limit = 60)]
fn no_core_sees_an_old_stack_when_its_slot_is_used_again() {
    // All other cores read the stack again and again, so they have its translation. It is dropped;
    // what its memory becomes is another number, and so is what its slot has next.
    const ROUNDS: u64 = 25;
    const SPOILT: u64 = u64::MAX;
    let me = cores::this_core();
    let others = cores::online().len() - 1;
    let [place, reused, seen, checked] = [const { AtomicUsize::new(0) }; 4];
    let wait_for = |count: &AtomicUsize, least: usize| {
        while count.load(Acquire) < least {
            hal::pause();
        }
    };
    let spoil = |frame: &u64| {
        let at = hal::layout::phys_to_virt(*frame) as *mut [u64; PAGE / 8];
        // SAFETY: the frame was just allocated, and is in the direct map.
        unsafe { at.write_volatile([SPOILT; _]) };
    };
    on_all(&|core| {
        for round in 1..=ROUNDS {
            let (before, after) = (2 * round, 2 * round + 1);
            if core != me {
                wait_for(&reused, round as usize * 2 - 1);
                let at = place.load(Acquire);
                assert_eq!(probe::read(at), Ok(before));
                seen.fetch_add(1, Release);
                // With interrupts masked most of the time: then whatever would make this core forget
                // the page waits, and the slot has to wait for it.
                while reused.load(Acquire) < round as usize * 2 {
                    let _masked = irq::mask();
                    for _ in 0..1_000 {
                        let is_reused = reused.load(Acquire) >= round as usize * 2;
                        let value = probe::read(at);
                        assert!(
                            !is_reused || value == Ok(after),
                            "core {core} sees {value:?}"
                        );
                        assert_ne!(value, Ok(SPOILT), "core {core} sees a frame that was freed");
                    }
                }
                assert_eq!(probe::read(at), Ok(after), "core {core}");
                checked.fetch_add(1, Release);
                continue;
            }
            let old = make(DEFAULT_SIZE);
            let bounds = old.bounds();
            mark(&old, before);
            place.store(bounds.high - 8, Relaxed);
            reused.store(round as usize * 2 - 1, Release);
            wait_for(&seen, round as usize * others);
            drop(old);
            let mut spare = Vec::new();
            let new = loop {
                // Whatever is free by now is something else from here on.
                let frames: [u64; 8] =
                    core::array::from_fn(|_| mem::alloc_frame().expect("memory"));
                frames.iter().for_each(spoil);
                let stack = make(DEFAULT_SIZE);
                frames.into_iter().for_each(mem::free_frame);
                if stack.bounds() == bounds {
                    break stack;
                }
                spare.push(stack);
                // At first without, to see that it is not handed out too early.
                if spare.len() > 3 {
                    stack::collect();
                }
            };
            mark(&new, after);
            reused.store(round as usize * 2, Release);
            wait_for(&checked, round as usize * others);
        }
    });
}

/// All memory of the machine that was free, in blocks that are linked through themselves; 0: no more.
struct Hog(u64);

impl Hog {
    fn new() -> Self {
        let mut last = 0;
        for order in (0..=18).rev() {
            while let Some(block) = mem::frames().alloc_order(order) {
                // SAFETY: it was just allocated, and is in the direct map.
                unsafe { Self::link(block).write(last) };
                last = block;
            }
        }
        Self(last)
    }

    fn link(block: u64) -> *mut u64 {
        hal::layout::phys_to_virt(block) as *mut u64
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        while self.0 != 0 {
            // SAFETY: `new` wrote it, and nobody else has the block.
            let next = unsafe { Self::link(self.0).read() };
            mem::free_frame(self.0);
            self.0 = next;
        }
    }
}

#[kernel_test(limit = 60)]
fn without_memory_there_is_no_stack_and_nothing_is_lost() {
    for size in [usize::MAX, usize::MAX / 2, 17 << 30] {
        assert_eq!(Stack::new(size).err(), Some(NoMemory));
    }
    // The lowest free slot has its tables from here on.
    let slot = make(DEFAULT_SIZE).bounds();
    stack::collect();
    let before = free_frames();
    let single: [u64; 2] = core::array::from_fn(|_| mem::alloc_frame().expect("memory"));
    let hog = Hog::new();
    for (left, frame) in single.into_iter().enumerate() {
        assert_eq!(free_frames(), left);
        assert_eq!(Stack::new(DEFAULT_SIZE).err(), Some(NoMemory));
        assert_eq!(free_frames(), left, "what it had is given back");
        mem::free_frame(frame);
    }
    for _ in 0..10 {
        // From the second time on, the memory is that of the last: it has to wait until that is free.
        let stack = make(DEFAULT_SIZE);
        assert_eq!((stack.bounds(), free_frames()), (slot, 0));
        assert_eq!(Stack::new(DEFAULT_SIZE).err(), Some(NoMemory));
        drop(stack);
    }
    stack::collect();
    assert_eq!(free_frames(), 2);
    drop(hog);
    assert_eq!(free_frames(), before);
}

#[kernel_test(limit = 60)]
fn a_reserve_that_could_not_be_filled_is_filled_when_there_is_memory() {
    let full = stack::ready();
    let stack = make(DEFAULT_SIZE);
    let hog = Hog::new();
    aside::run(&stack, &|| {
        let guard = preempt::guard();
        grow(&stack, full);
        drop(guard);
        assert_eq!(stack::ready(), 0, "there is no memory");
    });
    drop(hog);
    // At the end of whatever interrupt comes next.
    cores::kick(cores::this_core());
    while stack::ready() < full {
        hal::pause();
    }
}
