//! Tests that go wrong on purpose, each in its own way. The runner's own tests
//! boot this image and check that each is reported as what it is, and that
//! those after it still run.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use boot::command_line::Watchdog;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use executor::{
    sync::{Barrier, Mutex},
    task,
};
use hal::{
    power::{self, Status},
    stack::{self, Stack},
};
use kernel::watchdog;
use testing::kernel_test;

boot::entry!(kernel::test_main::main);

#[kernel_test]
fn a_test_that_fails() -> Result<(), &'static str> {
    Err("as it was told to")
}

#[kernel_test]
fn a_test_that_panics() {
    panic!("as it was told to");
}

#[kernel_test]
fn a_test_that_overflows_its_stack() {
    #[inline(never)]
    #[allow(unconditional_recursion, reason = "that is what is tested")]
    fn deeper(depth: u64) -> u64 {
        let mut here = [depth; 64];
        core::hint::black_box(&mut here);
        deeper(depth + 1) + here[7]
    }
    core::hint::black_box(deeper(0));
}

fn on_a_new_stack(work: &dyn Fn()) {
    let stack = Stack::new(stack::DEFAULT_SIZE).expect("memory for a stack");
    kernel::aside::run(&stack, work);
}

#[kernel_test]
fn a_test_that_overflows_a_stack_that_grows() {
    on_a_new_stack(&a_test_that_overflows_its_stack);
}

#[kernel_test]
fn a_test_whose_stack_grows_too_far_under_a_guard() {
    on_a_new_stack(&|| {
        let _guard = hal::preempt::guard();
        a_test_that_overflows_its_stack();
    });
}

#[kernel_test]
fn a_test_whose_stack_finds_no_memory() {
    on_a_new_stack(&|| {
        while kernel::mem::alloc_frame().is_some() {}
        a_test_that_overflows_its_stack();
    });
}

#[kernel_test]
fn a_test_that_triple_faults() {
    hal::power::restart_by_force();
}

#[kernel_test(limit = 3)]
fn a_test_that_hangs_with_interrupts_off() {
    let _masked = hal::irq::mask();
    loop {
        hal::pause();
    }
}

#[kernel_test]
fn a_test_that_exits_early() {
    power::exit(Status::Success);
}

#[kernel_test(cores = 2)]
fn a_test_that_overflows_the_stack_of_another_core() {
    kernel::cores::on_all(&|core| {
        if core == 1 {
            a_test_that_overflows_its_stack();
        }
    });
}

#[kernel_test(cores = 2)]
fn a_test_in_which_all_cores_panic_at_once() {
    let together = AtomicUsize::new(0);
    kernel::cores::on_all(&|core| {
        together.fetch_add(1, Relaxed);
        while together.load(Relaxed) < hal::cores::online().len() {
            hal::pause();
        }
        panic!("core {core} too");
    });
}

#[inline(never)]
fn spin_with_interrupts_masked(spins: &AtomicUsize) -> ! {
    let _masked = hal::irq::mask();
    spins.store(1, Relaxed);
    loop {
        hal::pause();
    }
}

#[kernel_test(cores = 2)]
fn a_test_that_panics_while_another_core_masks_interrupts() {
    let spins = AtomicUsize::new(0);
    kernel::cores::on_all(&|core| match core {
        1 => spin_with_interrupts_masked(&spins),
        _ => {
            while spins.load(Relaxed) == 0 {
                hal::pause();
            }
            assert!(core != 0, "while another core spins");
        }
    });
}

/// A task masks interrupts for good, and the watchdog does this.
fn in_spite_of_a_masked_core(action: Watchdog) {
    let _expected = watchdog::expect_alarms(action);
    let runtime = executor::Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        let spins = AtomicUsize::new(0);
        let masks = task::Builder::new().name("masks").core(1);
        let masks = masks.spawn(async move { spin_with_interrupts_masked(&spins) });
        drop(masks.await);
    });
}

#[kernel_test(cores = 2, limit = 60)]
fn a_test_that_the_watchdog_ends_by_a_panic() {
    in_spite_of_a_masked_core(Watchdog::Panic);
}

#[kernel_test(cores = 2, limit = 60)]
fn a_test_that_the_watchdog_ends_by_a_restart() {
    in_spite_of_a_masked_core(Watchdog::Reset);
}

/// Where tasks may fail, as outside of tests: a panic of the watchdog must still be the machine's.
#[kernel_test(limit = 60)]
fn a_test_with_a_circle_of_locks_that_the_watchdog_ends_by_a_panic() {
    static LOCKS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    static BOTH: Barrier = Barrier::new(2);
    let _expected = watchdog::expect_alarms(Watchdog::Panic);
    let _tasks_end = kernel::failure::let_tasks_end();
    let runtime = executor::Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        let _watchdog = watchdog::start();
        let tasks = [0, 1].map(|number| {
            task::spawn(async move {
                let _one = LOCKS[number].lock().await;
                BOTH.wait().await;
                drop(LOCKS[1 - number].lock().await);
            })
        });
        for task in tasks {
            drop(task.await);
        }
    });
}

#[kernel_test(cores = 2, limit = 60)]
fn a_test_with_an_alarm_that_nobody_expects() {
    drop(watchdog::expect_alarms(Watchdog::Report));
    let runtime = executor::Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async {
        let holds = async {
            let _guard = hal::preempt::guard();
            loop {
                hal::pause();
            }
        };
        drop(
            task::Builder::new()
                .name("holds")
                .core(1)
                .spawn(holds)
                .await,
        );
    });
}

#[kernel_test]
fn a_test_that_panics_while_it_prints() {
    struct Trap;
    impl core::fmt::Display for Trap {
        fn fmt(&self, _: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            panic!("in the middle of a line");
        }
    }
    kernel::println!("this line ends in {Trap}");
}

#[kernel_test]
fn a_test_that_allocates_in_an_interrupt() {
    kernel::upcalls::set_timer_hook(Some(|| drop(core::hint::black_box(Box::new(1u64)))));
    hal::clock::arm(0);
    loop {
        hal::pause();
    }
}

#[kernel_test]
fn a_test_that_panics_while_a_timer_ticks() {
    fn tick() {
        hal::clock::arm(hal::clock::now() + 100_000);
    }
    kernel::upcalls::set_timer_hook(Some(tick));
    tick();
    panic!("with the tick on");
}

#[kernel_test]
fn a_test_that_faults_in_an_interrupt_with_a_damaged_stack() {
    // The report walks the stack, meets the damage, and must survive that: a trap in a trap in a trap.
    kernel::upcalls::set_timer_hook(Some(hal::probe::fault_with_damaged_stack));
    hal::clock::arm(0);
    loop {
        hal::pause();
    }
}

#[kernel_test]
fn a_test_that_reads_null() {
    let null = core::hint::black_box(core::ptr::null::<u64>());
    // SAFETY: it is not; that is what is tested.
    core::hint::black_box(unsafe { null.read_volatile() });
}

/// Runs this in a task, in which failures would end only that.
fn in_a_task(work: fn()) {
    let _tasks_end = kernel::failure::let_tasks_end();
    let runtime = executor::Runtime::new().expect("no other runtime has the cores");
    let _ = runtime.block_on(async { executor::spawn(async move { work() }).await });
}

#[kernel_test]
fn a_test_whose_task_panics_under_a_guard() {
    in_a_task(|| {
        let _guard = hal::preempt::guard();
        panic!("with a guard");
    });
}

#[kernel_test]
fn a_test_whose_task_faults_with_interrupts_masked() {
    in_a_task(|| {
        let _masked = hal::irq::mask();
        a_test_that_reads_null();
    });
}

#[kernel_test]
fn a_test_whose_task_is_interrupted_by_a_panic() {
    in_a_task(|| {
        kernel::upcalls::set_timer_hook(Some(|| panic!("in an interrupt")));
        loop {
            hal::pause();
        }
    });
}

#[kernel_test]
fn a_test_whose_block_on_panics() {
    let _tasks_end = kernel::failure::let_tasks_end();
    let runtime = executor::Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(async { panic!("who called cannot go on") });
}

#[kernel_test(cores = 2)]
fn a_test_in_which_all_cores_print() {
    kernel::cores::on_all(&|core| {
        for line in 0..100 {
            kernel::println!(
                "core {core} line {line}: the quick brown fox jumps over the lazy dog"
            );
        }
    });
}

#[kernel_test]
fn a_test_that_passes() {}
