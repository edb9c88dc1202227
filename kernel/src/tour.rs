//! What works, shown: runs by itself when nobody sits at the terminal.

use crate::{Machine, cores, mem, println, shell, upcalls};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::*};
use hal::{clock, irq, power, probe};

/// Shows everything, then switches off.
pub fn run(machine: &Machine) -> ! {
    println!();
    println!("--- the cores");
    shell::execute(machine, "cores");
    println!("--- a timer on each of them: asked for 10 ms, slept");
    timers();
    println!("--- the heap, from all of them at once");
    heap();
    println!("--- memory protection");
    protection();
    println!("--- memory");
    shell::execute(machine, "mem");
    println!("--- that is all; switching off");
    power::exit(power::Status::Success)
}

fn timers() {
    cores::on_all(&|core| {
        let start = clock::now();
        let seen = upcalls::counts(core).timers.load(Relaxed);
        clock::arm(start + 10_000_000);
        loop {
            let masked = irq::mask();
            if upcalls::counts(core).timers.load(Relaxed) != seen {
                break;
            }
            irq::wait(&masked);
        }
        println!("  core {core}: {} us", (clock::now() - start) / 1000);
    });
}

fn heap() {
    let sum = AtomicU64::new(0);
    cores::on_all(&|core| {
        let boxes: Vec<Box<u64>> = (0..1000)
            .map(|i| Box::new(core as u64 * 1000 + i))
            .collect();
        sum.fetch_add(boxes.iter().map(|number| **number).sum(), Relaxed);
    });
    let cores = hal::cores::online();
    let expected: u64 = cores
        .iter()
        .map(|core| core as u64 * 1_000_000 + 499_500)
        .sum();
    println!(
        "  {} cores made 1000 boxes each; their sum is {}, expected {expected}",
        cores.len(),
        sum.load(Relaxed)
    );
    assert_eq!(sum.load(Relaxed), expected);
    println!(
        "  {} bytes are in use now",
        mem::heap().stats().live_bytes()
    );
}

fn protection() {
    let code = run as *const () as usize;
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
