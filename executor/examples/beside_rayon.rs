//! `parallel` beside rayon, on two threads each. Run it with
//! `cargo run --release -p spindle-executor --example beside_rayon [rounds [which]]`.
//!
//! Both do the same in turn, many times, in one process; of each the least and the
//! middle time are printed, and their ratios, ours to rayon's. The least are
//! what counts on a machine that others use, too. Nothing here passes or fails.

use executor::{
    Runtime,
    parallel::{join, par_map, par_reduce},
};
use rayon::prelude::*;
use std::{hint::black_box, time::Instant};

const THREADS: usize = 2;

fn main() {
    let rounds = std::env::args().nth(1).and_then(|arg| arg.parse().ok());
    let rounds: usize = rounds.unwrap_or(200);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(THREADS);
    let pool = pool.build().expect("two threads");
    let runtime = Runtime::builder().workers(THREADS);
    let runtime = runtime.build().expect("two more");

    let numbers: Vec<u32> = (0..10_000_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761))
        .collect();
    let sum: u32 = numbers
        .iter()
        .fold(0, |sum, number| sum.wrapping_add(*number));
    runtime.block_on(async {
        compare(
            "sum of 10 M u32",
            rounds,
            || {
                par_reduce(
                    &numbers,
                    || 0,
                    |sum, n| n.wrapping_add(sum),
                    u32::wrapping_add,
                )
            },
            || pool.install(|| numbers.par_iter().copied().reduce(|| 0, u32::wrapping_add)),
            &sum,
        );
        let squares: Vec<u64> = (0..1_000_000).map(|n| n * n).collect();
        compare(
            "squares of 1 M u64",
            rounds,
            || par_map(0..1_000_000_u64, |n| n * n),
            || pool.install(|| (0..1_000_000_u64).into_par_iter().map(|n| n * n).collect()),
            &squares,
        );
        let uneven: u64 = (0..2000).map(work).fold(0, u64::wrapping_add);
        compare(
            "2000 items of uneven work",
            rounds,
            || {
                par_reduce(
                    0..2000_u64,
                    || 0,
                    |sum: u64, n| sum.wrapping_add(work(n)),
                    u64::wrapping_add,
                )
            },
            || {
                pool.install(|| {
                    (0..2000_u64)
                        .into_par_iter()
                        .map(work)
                        .reduce(|| 0, u64::wrapping_add)
                })
            },
            &uneven,
        );
        compare(
            "fib(20) by join",
            rounds,
            || fib(20),
            || pool.install(|| rayon_fib(20)),
            &6765,
        );
    });
}

/// Takes longer the larger the number, by steps.
fn work(n: u64) -> u64 {
    (0..n / 4 * (n % 7)).fold(n, |x, y| black_box(x ^ y.wrapping_mul(31)))
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn rayon_fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = rayon::join(|| rayon_fib(n - 1), || rayon_fib(n - 2));
    a + b
}

fn compare<T: PartialEq>(
    name: &str,
    rounds: usize,
    ours: impl Fn() -> T,
    rayons: impl Fn() -> T,
    expected: &T,
) {
    let time = |function: &dyn Fn() -> T| {
        let begin = Instant::now();
        let result = black_box(function());
        let took = begin.elapsed();
        assert!(result == *expected, "{name}: a wrong result");
        took.as_nanos() as f64 / 1000.0
    };
    let which = std::env::args().nth(2).unwrap_or_default();
    if !name.contains(&which) {
        return;
    }
    let (mut our, mut their) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        our.push(time(&ours));
        their.push(time(&rayons));
    }
    our.sort_by(f64::total_cmp);
    their.sort_by(f64::total_cmp);
    let (least, middle) = (0, rounds / 2);
    println!(
        "{name:26} least {:8.1} us, rayon {:8.1}, ratio {:.3}; middle {:8.1} us, rayon {:8.1}, ratio {:.3}",
        our[least],
        their[least],
        our[least] / their[least],
        our[middle],
        their[middle],
        our[middle] / their[middle],
    );
}
