//! Switching contexts, voluntarily and from an interrupt.

use crate::{cores::on_all, mem, upcalls};
use core::{
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*},
};
use hal::{
    clock,
    context::{self, AfterSwitch, ContextBlock},
    cores, irq, stack,
};
use testing::kernel_test;

fn stack(size: usize) -> stack::Bounds {
    stack::allocate(size, mem::alloc_frame).expect("memory for a stack")
}

/// Contexts of a ring, each of which counts and goes on to the next.
struct Ring {
    blocks: [ContextBlock; 4],
    counts: [AtomicU64; 4],
    home: AtomicPtr<ContextBlock>,
    actions: AtomicU64,
}

/// What a context of the ring is told.
struct Member<'a> {
    ring: &'a Ring,
    index: usize,
}

const TURNS: u64 = 1_000;

extern "C" fn member(argument: usize) -> ! {
    // SAFETY: the test keeps ring and member alive until no member runs any more.
    let Member { ring, index } = unsafe { &*(argument as *const Member<'_>) };
    let mark = |i: u64| (*index as u64 + 1) << 32 | i;
    loop {
        // Values that live in callee-saved registers across the switch.
        let marks: [u64; 6] = core::array::from_fn(|i| core::hint::black_box(mark(i as u64)));
        let turn = ring.counts[*index].load(Relaxed) + 1;
        ring.counts[*index].store(turn, Relaxed);
        let next = if turn == TURNS && *index == 3 {
            NonNull::new(ring.home.load(Relaxed)).expect("set before")
        } else {
            NonNull::from(&ring.blocks[(index + 1) % 4])
        };
        // SAFETY: interrupts are masked in members from their start; `next` is saved, or fresh.
        unsafe { context::switch(next, ring.action()) };
        for (i, value) in marks.into_iter().enumerate() {
            assert_eq!(value, mark(i as u64), "a register was lost");
        }
    }
}

impl Ring {
    /// Counts itself, to see that there is one for each switch.
    fn action(&self) -> AfterSwitch {
        extern "C" fn count(counter: usize) {
            // SAFETY: the address of an atomic of the ring, which outlives the switch.
            unsafe { &*(counter as *const AtomicU64) }.fetch_add(1, Relaxed);
        }
        AfterSwitch {
            run: count,
            argument: &raw const self.actions as usize,
        }
    }
}

#[kernel_test(limit = 120)]
fn contexts_switch_in_a_ring_on_every_core_and_keep_their_registers() {
    on_all(&|_| {
        let ring = Ring {
            blocks: [const { ContextBlock::new() }; 4],
            counts: [const { AtomicU64::new(0) }; 4],
            home: AtomicPtr::new(core::ptr::from_ref(context::current()).cast_mut()),
            actions: AtomicU64::new(0),
        };
        let members: [Member<'_>; 4] = core::array::from_fn(|index| Member { ring: &ring, index });
        for (block, told) in ring.blocks.iter().zip(&members) {
            // SAFETY: it does not run, and the stack is its own.
            unsafe { block.prepare(stack(16 * 1024), member, &raw const *told as usize) };
        }
        let masked = irq::mask();
        // SAFETY: interrupts are masked, the first member is fresh, the ring lives until we are back.
        unsafe { context::switch(NonNull::from(&ring.blocks[0]), ring.action()) };
        drop(masked);
        for count in &ring.counts {
            assert_eq!(count.load(Relaxed), TURNS);
        }
        assert_eq!(
            ring.actions.load(Relaxed),
            4 * TURNS + 1,
            "one action for each switch"
        );
        assert!(irq::are_enabled());
    });
}

/// Two loops that never give way, and where the test itself waits.
struct Duel {
    loops: [ContextBlock; 2],
    home: AtomicPtr<ContextBlock>,
    turns: [AtomicU64; 2],
    switches: AtomicUsize,
    wrong: AtomicBool,
    active: AtomicBool,
}

/// One for each core.
static DUELS: [Duel; cores::MAX_CORES] = [const {
    Duel {
        loops: [const { ContextBlock::new() }; 2],
        home: AtomicPtr::new(core::ptr::null_mut()),
        turns: [const { AtomicU64::new(0) }; 2],
        switches: AtomicUsize::new(0),
        wrong: AtomicBool::new(false),
        active: AtomicBool::new(false),
    }
}; cores::MAX_CORES];

/// How often each core switches, at least, before it goes home.
const SWITCHES: usize = 200;

/// Never gives way; checks that no register changes behind its back.
extern "C" fn endless(argument: usize) -> ! {
    let (core, mine) = (argument / 2, argument % 2);
    let duel = &DUELS[core];
    irq::enable_after_start();
    loop {
        if !hal::context::registers_survive(argument as u64 + 1, 500) {
            duel.wrong.store(true, Relaxed);
        }
        duel.turns[mine].store(duel.turns[mine].load(Relaxed) + 1, Relaxed);
    }
}

/// At the end of a timer interrupt: the other loop's turn, or home.
fn rotate(interrupted: &'static ContextBlock) -> Option<(NonNull<ContextBlock>, AfterSwitch)> {
    let duel = &DUELS[cores::this_core()];
    if !duel.active.load(Relaxed) {
        return None;
    }
    let switches = duel.switches.load(Relaxed) + 1;
    duel.switches.store(switches, Relaxed);
    // A starved machine may spend whole quanta without a turn of the loops.
    let both_ran = duel.turns.iter().all(|turns| turns.load(Relaxed) > 0);
    let next = if switches > SWITCHES && both_ran {
        duel.active.store(false, Relaxed);
        NonNull::new(duel.home.load(Relaxed)).expect("set before")
    } else {
        clock::arm(clock::now() + 20_000 + 1_000 * (switches as u64 % 7));
        let first = core::ptr::eq(interrupted, &duel.loops[0]);
        NonNull::from(&duel.loops[usize::from(first)])
    };
    Some((next, AfterSwitch::NOTHING))
}

#[kernel_test(limit = 300)]
fn a_timer_switches_between_loops_that_never_give_way() {
    upcalls::set_exit_hook(Some(rotate));
    on_all(&|core| {
        let duel = &DUELS[core];
        duel.switches.store(0, Relaxed);
        duel.turns.iter().for_each(|turns| turns.store(0, Relaxed));
        for (mine, block) in duel.loops.iter().enumerate() {
            // SAFETY: it does not run, and the stack is its own.
            unsafe { block.prepare(stack(16 * 1024), endless, 2 * core + mine) };
        }
        let masked = irq::mask();
        duel.home
            .store(core::ptr::from_ref(context::current()).cast_mut(), Relaxed);
        duel.active.store(true, Relaxed);
        clock::arm(clock::now() + 20_000);
        // SAFETY: interrupts are masked; the loop is fresh; `rotate` brings us back here.
        unsafe { context::switch(NonNull::from(&duel.loops[0]), AfterSwitch::NOTHING) };
        drop(masked);
        clock::disarm();
        assert!(
            !duel.wrong.load(Relaxed),
            "a register changed across a switch"
        );
        assert!(duel.switches.load(Relaxed) > SWITCHES);
        assert!(irq::are_enabled());
    });
    upcalls::set_exit_hook(None);
}
