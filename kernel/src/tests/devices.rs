//! Devices, driven by their interrupts: the console's own port, a clock, and lines that do not stop.

use crate::{boot_info, console, devices};
use alloc::{string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use drivers::clock_of_day;
use executor::{
    Runtime,
    io::{AttachError, OnInterrupt, Seen, devices as all, lines},
};
use hal::{
    board::{self, Board},
    cores,
    irq::{self, Line},
};
use testing::kernel_test;

fn on_all_cores(future: impl Future<Output = ()> + 'static) {
    let runtime = Runtime::new().expect("no other runtime has the cores");
    runtime.block_on(future);
    runtime.shutdown();
}

/// A line that no device of these boards uses.
fn spare_line() -> Line {
    Line(match board::platform().board {
        Board::Pc => 13,
        Board::Virt => 60,
        _ => 40,
    })
}

async fn state_of(name: &str) -> String {
    let devices = all::devices().await;
    let named = devices
        .into_iter()
        .find(|info| info.name.as_deref() == Some(name));
    named.map_or_else(String::new, |info| info.state)
}

#[kernel_test(limit = 120)]
fn the_console_s_port_is_driven_stopped_and_driven_again() {
    on_all_cores(async {
        devices::start(boot_info()).await;
        // A test before this one may have stopped it.
        all::start("uart0").await;
        for _ in 0..3 {
            assert!(state_of("uart0").await.starts_with("running"));
            let bytes_out = async || {
                let state = state_of("uart0").await;
                let out = state
                    .split(", ")
                    .nth(1)
                    .and_then(|out| out.split(' ').next());
                out.and_then(|out| out.parse::<usize>().ok())
                    .expect("it says how many")
            };
            let before = bytes_out().await;
            crate::println!("note: this line goes through a ring, and is sent by interrupts");
            // More than the ring has room for, with interrupts masked: then it is sent by hand.
            {
                let _masked = irq::mask();
                for number in 0..300 {
                    crate::println!(
                        "note: line {number} of many, which are more than the ring has room for"
                    );
                }
            }
            console::write(b"note: and these bytes as they are\r\n").await;
            console::flush();
            assert!(bytes_out().await > before + 18_000);
            assert!(all::stop("uart0").await);
            assert!(!all::stop("uart0").await, "it is stopped already");
            crate::println!("note: this one is sent by hand");
            assert!(all::start("uart0").await);
        }
        // What comes after this in the same image is by hand again.
        assert!(all::stop("uart0").await);
        assert!(!all::stop("uart7").await);
    });
}

#[kernel_test(limit = 120)]
fn an_alarm_of_a_clock_wakes_its_task() {
    if board::platform().board != Board::Virt {
        return;
    }
    on_all_cores(async {
        devices::start(boot_info()).await;
        assert!(all::start("clock0").await || state_of("clock0").await.starts_with("running"));
        let first = clock_of_day::next_second().await.expect("it runs");
        let second = clock_of_day::next_second().await.expect("it runs");
        assert!(second > first, "{second} after {first}");
        assert!(
            !state_of("clock0").await.contains("running: 0 "),
            "it was not by interrupts"
        );
        assert!(all::stop("clock0").await);
        assert_eq!(clock_of_day::next_second().await, None);
        all::stop("uart0").await;
    });
}

/// Says that it had something to do, or not; and counts.
struct Half {
    works: AtomicBool,
    count: AtomicUsize,
}

impl Half {
    fn new(works: bool) -> Arc<Self> {
        Arc::new(Self {
            works: AtomicBool::new(works),
            count: AtomicUsize::new(0),
        })
    }
}

impl OnInterrupt for Half {
    fn on_interrupt(&self) -> Seen {
        self.count.fetch_add(1, Relaxed);
        match self.works.load(Relaxed) {
            true => Seen::Work,
            false => Seen::Nothing,
        }
    }
}

/// What an interrupt of that line does.
fn interrupt(line: Line) -> bool {
    let _masked = irq::mask();
    lines::on_line(line)
}

#[kernel_test]
fn each_half_at_a_line_is_asked_and_none_that_is_detached() {
    let line = spare_line();
    assert!(!interrupt(line), "nobody is attached");
    let (one, other) = (Half::new(true), Half::new(false));
    let first = lines::attach(line, None, one.clone()).expect("there is room");
    let second = lines::attach(line, None, other.clone()).expect("there is room");
    assert_eq!(first.core(), second.core(), "a line goes to one core");
    // Each was asked when it was attached, and the first once more then.
    assert_eq!(
        (one.count.swap(0, Relaxed), other.count.swap(0, Relaxed)),
        (2, 1)
    );
    assert!(interrupt(line) && interrupt(line));
    assert_eq!((one.count.load(Relaxed), other.count.load(Relaxed)), (2, 2));
    drop(first);
    assert!(interrupt(line));
    assert_eq!((one.count.load(Relaxed), second.count()), (2, 3));
    assert_eq!(Arc::strong_count(&one), 1, "nothing of it is kept");
    drop(second);
    assert!(!interrupt(line));
    let nowhere = lines::attach(line, Some(cores::MAX_CORES), one);
    assert!(matches!(nowhere, Err(AttachError::NoCore)));
}

#[kernel_test]
fn a_line_that_has_nothing_to_say_and_does_not_stop_is_shut_off() {
    let line = spare_line();
    let half = Half::new(true);
    let attached = lines::attach(line, None, half.clone()).expect("there is room");
    for _ in 0..5_000 {
        interrupt(line);
    }
    assert!(!attached.is_shut(), "it had something to do each time");
    half.works.store(false, Relaxed);
    for number in 0..1_000 {
        assert!(!attached.is_shut(), "after {number}");
        interrupt(line);
    }
    assert!(attached.is_shut());
    let known = lines::lines().expect("there is memory");
    assert!(
        known
            .iter()
            .any(|known| known.line == line && known.is_shut)
    );
    attached.steer(attached.core()).expect("it is up");
    assert!(!attached.is_shut());
}

#[kernel_test(cores = 2)]
fn lines_are_spread_over_the_cores() {
    let first = spare_line().0;
    let half = Half::new(true);
    let lines_of = |core| {
        let lines = lines::lines().expect("there is memory");
        lines.iter().filter(|line| line.core == core).count()
    };
    let goes_to_one = board::platform().board == Board::Raspi3;
    let attach = |number| {
        // Those of devices that are driven are there too.
        let fewest = cores::online().iter().map(lines_of).min();
        let line = lines::attach(Line(first + number), None, half.clone());
        let line = line.expect("there is room");
        let had = lines_of(line.core()) - 1;
        assert!(goes_to_one && line.core() == 0 || Some(had) == fewest);
        line
    };
    let attached: Vec<_> = (0..2).map(attach).collect();
    attached[0].steer(attached[1].core()).expect("it is up");
    assert_eq!(attached[0].core(), attached[1].core());
}
