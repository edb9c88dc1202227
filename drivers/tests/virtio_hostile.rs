//! Devices that lie. A fake device, in the same memory, plays the other side of the very code that drives real ones: it sets features, sizes and
//! configurations as it likes, uses chains that it was not given, writes lengths that there is no room for, moves indices, scribbles over all
//! that is shared. Nothing of that may bring the driver down, or make it touch what it must not.
//!
//! Each case has a seed, which is said when it fails: `HOSTILE_SEED=<seed> cargo test -p spindle-drivers --test virtio_hostile <name>` is that case alone.
//! There are 100,000 of them, or with `SPINDLE_LONG=1` (as `make test-long` has it) ten million.

#[path = "virtio_hostile/block.rs"]
mod block;
#[path = "virtio_hostile/fake.rs"]
mod fake;
#[path = "virtio_hostile/net.rs"]
mod net;
#[path = "virtio_hostile/queue.rs"]
mod queue;

use std::env;

/// Says which case it was, if it fails.
struct Case(&'static str, u64);

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: it was HOSTILE_SEED={}", self.0, self.1);
        }
    }
}

/// What a case came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    /// The device was not started.
    Refused,
    /// It was found out.
    Broken,
    /// It was driven until the end.
    Driven,
}

/// Runs `share` of a hundred cases. Of each outcome there must be many: else the device would not lie well enough, or too badly.
fn run(name: &'static str, share: u64, case: fn(u64) -> Outcome) {
    if let Some(seed) = env::var("HOSTILE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    {
        let _case = Case(name, seed);
        println!("{:?}", case(seed));
        return;
    }
    let is_long = env::var("SPINDLE_LONG").is_ok_and(|value| value == "1");
    let cases = if is_long { 10_000_000 } else { 100_000 };
    let cases = cases / 100 * share;
    let mut counts = [0; 3];
    for seed in 1..=cases {
        let _case = Case(name, seed);
        counts[case(seed) as usize] += 1;
    }
    println!("{name}: {counts:?} refused, broken, driven");
    assert!(
        counts[1..].iter().all(|count| *count > cases / 10),
        "{counts:?}"
    );
}

#[test]
fn a_queue_believes_only_what_can_be() {
    run("a_queue_believes_only_what_can_be", 40, queue::case);
}

#[test]
fn a_network_card_that_lies_is_found_out() {
    run("a_network_card_that_lies_is_found_out", 30, net::case);
}

#[test]
fn a_disk_that_lies_is_found_out() {
    run("a_disk_that_lies_is_found_out", 30, block::case);
}

/// Lies that do no harm if they are not seen but to who believes them.
#[test]
fn what_would_be_believed_is_found_out_too() {
    net::a_frame_without_a_header();
    net::an_address_of_many();
    // It has written nothing of the sector; has written all, and says it has not; has not said how it went.
    block::a_read_that_is_short(&[0], 1);
    block::a_read_that_is_short(&[0; 513], 1);
    block::a_read_that_is_short(&[0; 512], 513);
    block::a_read_that_is_short(&[0; 513], 512);
}
