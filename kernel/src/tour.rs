//! What works, shown: runs by itself when nobody sits at the terminal.

use crate::{Machine, cores, mem, println, shell};
use alloc::{boxed::Box, vec::Vec};
use executor::time::{Duration, Instant, sleep};
use hal::{cores::this_core, power, probe};

/// Shows everything, then switches off.
pub async fn run(machine: &Machine) -> ! {
    println!();
    println!("--- the cores");
    shell::execute(machine, "cores").await;
    println!("--- a timer on each of them: asked for 10 ms, slept");
    timers().await;
    println!("--- the heap, from all of them at once");
    heap().await;
    println!("--- memory protection");
    protection();
    println!("--- memory");
    shell::execute(machine, "mem").await;
    println!("--- that is all; switching off");
    power::exit(power::Status::Success)
}

async fn timers() {
    let sleeper = |_| async {
        let start = Instant::now();
        sleep(Duration::from_millis(10)).await;
        let (core, slept) = (this_core(), start.elapsed());
        println!("  core {core}: {} us", slept.as_micros());
        assert!(slept >= Duration::from_millis(10), "woken too early");
    };
    cores::on_each("sleeper", sleeper).await;
}

async fn heap() {
    let boxes = |index| async move {
        let boxes: Vec<Box<u64>> = (0..1000).map(|i| Box::new(index as u64 + i)).collect();
        boxes.iter().map(|number| **number).sum::<u64>()
    };
    let sums = cores::on_each("boxes", boxes).await;
    let (count, sum) = (sums.len() as u64, sums.iter().sum::<u64>());
    drop(sums);
    let expected = count * 499_500 + 1000 * (0..count).sum::<u64>();
    println!("  {count} cores made 1000 boxes each; their sum is {sum}, expected {expected}");
    assert_eq!(sum, expected);
    let bytes = mem::heap().stats().live_bytes();
    println!("  {bytes} bytes are in use now, most of them for the executor's queues");
}

fn protection() {
    let code = protection as *const () as usize;
    let null = probe::read(0).is_err();
    // SAFETY: if it could be written, it would be written with what is there already.
    let write = unsafe { probe::write(code & !7, probe::read(code & !7).unwrap_or(0)) }.is_err();
    let stack = core::hint::black_box([0xc3c3_c3c3_c3c3_c3c3u64; 2]);
    // SAFETY: if it could be called, it would be a return instruction (or a fault that is reported).
    let execute = unsafe { probe::call(stack.as_ptr() as usize) }.is_err();
    for (what, faulted) in [
        ("reading null", null),
        ("writing to code", write),
        ("running the stack", execute),
    ] {
        println!(
            "  {what}: {}",
            if faulted {
                "faults, as it should"
            } else {
                "WORKS, which is wrong"
            }
        );
        assert!(faulted, "{what}");
    }
}
