//! Tests of the stack switch on the host.
#![cfg(not(loom))]

use hal::{
    bring_up,
    context::{self, AfterSwitch, ContextBlock},
    cores, irq,
    stack::Bounds,
    sync::Lock,
};
use std::{
    collections::VecDeque,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering::*},
};

const STACK: usize = 64 * 1024;

/// A context on a stack of ordinary memory, made to live for good.
fn make(entry: extern "C" fn(usize) -> !, argument: usize) -> NonNull<ContextBlock> {
    let stack: &'static mut [u128] = vec![0; STACK / 16].leak();
    let low = stack.as_mut_ptr().expose_provenance();
    let block: &'static ContextBlock = Box::leak(Box::default());
    // SAFETY: new, and the stack is its own.
    unsafe {
        block.prepare(
            Bounds {
                low,
                high: low + STACK,
            },
            entry,
            argument,
        )
    };
    NonNull::from(block)
}

/// Contexts that may be resumed.
static READY: Lock<VecDeque<usize>> = Lock::new(VecDeque::new());

fn offer(block: NonNull<ContextBlock>) {
    READY.lock().push_back(block.as_ptr().expose_provenance());
}

extern "C" fn offer_raw(block: usize) {
    READY.lock().push_back(block);
}

/// Gives way to the context that waited longest, if there is one. `register`
/// comes back as it was given.
extern "C" fn give_way(register: u64) -> u64 {
    let masked = irq::mask();
    let next = READY.lock().pop_front();
    if let Some(next) = next {
        let me = NonNull::from(context::current());
        let next = NonNull::new(std::ptr::with_exposed_provenance_mut(next)).unwrap();
        let after = AfterSwitch {
            run: offer_raw,
            argument: me.as_ptr().expose_provenance(),
        };
        // SAFETY: 1. masked; 2. the queue holds saved contexts, each once; 3. blocks live for good.
        unsafe { context::switch(next, after) };
        assert!(
            std::ptr::eq(me.as_ptr(), context::current()),
            "the block goes with its context"
        );
    }
    drop(masked);
    register
}

/// Fills every register that a call keeps with values made from `seed`, gives way, and compares.
#[cfg(target_arch = "x86_64")]
fn registers_survive(seed: u64) -> bool {
    let wrong: u64;
    // SAFETY: rbx and rbp are put back; all others that change are named. The stack is aligned at the call.
    unsafe {
        std::arch::asm!(
            "push rbx",
            "push rbp",
            "lea rbx, [rdi + 1]",
            "lea rbp, [rdi + 2]",
            "lea r12, [rdi + 3]",
            "lea r13, [rdi + 4]",
            "lea r14, [rdi + 5]",
            "lea r15, [rdi + 6]",
            "call {give_way}",
            "sub rbx, rax",
            "xor rbx, 1",
            "sub rbp, rax",
            "xor rbp, 2",
            "or rbx, rbp",
            "sub r12, rax",
            "xor r12, 3",
            "or rbx, r12",
            "sub r13, rax",
            "xor r13, 4",
            "or rbx, r13",
            "sub r14, rax",
            "xor r14, 5",
            "or rbx, r14",
            "sub r15, rax",
            "xor r15, 6",
            "or rbx, r15",
            "mov rax, rbx",
            "pop rbp",
            "pop rbx",
            give_way = sym give_way,
            inout("rdi") seed => _,
            out("rax") wrong,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("C"),
        );
    }
    wrong == 0
}

/// Fills registers that a call keeps with values made from `seed`, gives way, and compares.
#[cfg(target_arch = "aarch64")]
fn registers_survive(seed: u64) -> bool {
    let wrong: u64;
    // SAFETY: x19 is put back; all others that change are named.
    unsafe {
        std::arch::asm!(
            "str x19, [sp, #-16]!",
            "add x19, x0, #1",
            "add x20, x0, #2",
            "add x21, x0, #3",
            "add x22, x0, #4",
            "add x28, x0, #5",
            "fmov d8, x0",
            "fmov d15, x0",
            "bl {give_way}",
            "sub x19, x19, x0",
            "eor x1, x19, #1",
            "sub x20, x20, x0",
            "eor x20, x20, #2",
            "orr x1, x1, x20",
            "sub x21, x21, x0",
            "eor x21, x21, #3",
            "orr x1, x1, x21",
            "sub x22, x22, x0",
            "eor x22, x22, #4",
            "orr x1, x1, x22",
            "sub x28, x28, x0",
            "sub x28, x28, #5",
            "orr x1, x1, x28",
            "fmov x2, d8",
            "sub x2, x2, x0",
            "orr x1, x1, x2",
            "fmov x2, d15",
            "sub x2, x2, x0",
            "orr x1, x1, x2",
            "ldr x19, [sp], #16",
            give_way = sym give_way,
            inout("x0") seed => _,
            out("x1") wrong,
            out("x20") _,
            out("x21") _,
            out("x22") _,
            out("x28") _,
            out("d8") _,
            out("d15") _,
            clobber_abi("C"),
        );
    }
    wrong == 0
}

/// One test at a time uses the queue.
static QUEUE: std::sync::Mutex<()> = std::sync::Mutex::new(());
static TURNS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
static WRONG: AtomicUsize = AtomicUsize::new(0);
static CORES_SEEN: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

extern "C" fn player(number: usize) -> ! {
    irq::enable_after_start();
    loop {
        let turn = TURNS[number].fetch_add(1, Relaxed);
        CORES_SEEN[number].fetch_or(1 << cores::this_core(), Relaxed);
        if !registers_survive(((number as u64 + 1) << 32) + turn as u64) {
            WRONG.fetch_add(1, Relaxed);
        }
        // What is on the stack survives as well.
        let local = std::hint::black_box([number; 16]);
        give_way(0);
        if local != [number; 16] {
            WRONG.fetch_add(1, Relaxed);
        }
    }
}

fn reset() {
    READY.lock().clear();
    WRONG.store(0, Relaxed);
    for (turns, seen) in TURNS.iter().zip(&CORES_SEEN) {
        turns.store(0, Relaxed);
        seen.store(0, Relaxed);
    }
}

#[test]
fn three_contexts_take_turns_and_keep_their_registers() {
    let _queue = QUEUE.lock().unwrap();
    reset();
    for number in 0..3 {
        offer(make(player, number));
    }
    for _ in 0..3000 {
        give_way(0);
    }
    READY.lock().clear();
    assert_eq!(WRONG.load(Relaxed), 0);
    // Each turn has two switches.
    for turns in &TURNS {
        assert_eq!(turns.load(Relaxed), 1500);
    }
    assert!(irq::are_enabled());
}

#[test]
fn contexts_go_on_in_other_threads_than_they_were_left_in() {
    let _queue = QUEUE.lock().unwrap();
    reset();
    for number in 0..3 {
        offer(make(player, number));
    }
    let finished = AtomicUsize::new(0);
    bring_up::start(2, |core| {
        irq::enable_each_core();
        let me = NonNull::from(context::current());
        // The core's own context may be resumed by the other core: then it goes on there, and leaves
        // only after it is back on its own thread.
        let mut turns = 0;
        while turns < 20_000 || cores::this_core() != core {
            give_way(0);
            turns += 1;
        }
        let masked = irq::mask();
        // From here on nobody is offered any more, so both threads end on their own stacks.
        finished.fetch_add(1, AcqRel);
        drop(masked);
        while finished.load(Acquire) < 2 {
            assert_eq!(cores::this_core(), core);
            hal::pause();
        }
        assert!(std::ptr::eq(me.as_ptr(), context::current()));
    });
    READY.lock().clear();
    assert_eq!(WRONG.load(Relaxed), 0);
    let both = CORES_SEEN
        .iter()
        .filter(|seen| seen.load(Relaxed) == 0b11)
        .count();
    assert!(both > 0, "some context ran on both cores");
}

#[test]
fn a_context_knows_its_stack() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn look(back: usize) -> ! {
        let local = 0;
        let bounds = context::current().stack();
        let inside = bounds.contains((&raw const local).expose_provenance());
        SEEN.store(usize::from(inside) + 1, Relaxed);
        let back = NonNull::new(std::ptr::with_exposed_provenance_mut(back)).unwrap();
        // SAFETY: masked since the start; the context that switched here waits for this.
        unsafe { context::switch(back, AfterSwitch::NOTHING) };
        unreachable!("nobody comes back");
    }
    let masked = irq::mask();
    let me = NonNull::from(context::current());
    let block = make(look, me.as_ptr().expose_provenance());
    // SAFETY: masked, and the new context is this test's alone.
    unsafe { context::switch(block, AfterSwitch::NOTHING) };
    drop(masked);
    assert_eq!(SEEN.load(Relaxed), 2);
    // SAFETY: it does not run.
    let frame = unsafe { block.as_ref().frame() };
    // SAFETY: it does not run.
    let stack = unsafe { block.as_ref() }.stack();
    assert!(stack.contains(frame.stack_pointer()));
}

#[test]
fn what_core_and_context_keep_is_forgotten_when_another_thread_sits_down() {
    fn keep(word: *mut ()) {
        context::current().set_task(word);
        context::current().set_locals(word);
        cores::set_local(word);
    }
    fn kept() -> [*mut (); 3] {
        let here = context::current();
        [here.task(), here.locals(), cores::local()]
    }
    let mut word = 0u64;
    let at: *mut () = (&raw mut word).cast();
    keep(at);
    let exposed = at.expose_provenance();
    for _ in 0..2 {
        bring_up::start(2, |_| {
            assert_eq!(kept(), [std::ptr::null_mut(); 3]);
            keep(std::ptr::with_exposed_provenance_mut(exposed));
        });
    }
    assert_eq!(kept(), [at; 3], "those of this thread are its own");
    keep(std::ptr::null_mut());
}

#[test]
fn an_address_that_is_not_there_can_be_probed() {
    let word = 0x1234_5678_9abc_def0u64;
    let at = (&raw const word).expose_provenance();
    if cfg!(target_os = "linux") {
        assert_eq!(hal::probe::read(at), Ok(word));
    }
    assert!(hal::probe::read(8).is_err());
    let mut frames = 0;
    let (program_counter, frame_pointer) = hal::backtrace::here();
    hal::backtrace::walk(program_counter, frame_pointer, |_| frames += 1);
    assert!(frames > 0);
}
