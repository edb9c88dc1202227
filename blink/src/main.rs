//! The smallest image: it blinks, and has nothing else in it. One core, no
//! heap, no runtime; an async function that waits for the timer's interrupt
//! by a waker, run by `block_on_simple`.
//!
//! On a Pi it is GPIO 21 that blinks (pin 40 of the header: a LED and a resistor
//! to pin 39; the green LED of a Pi 3 hangs behind the firmware's expander, out of
//! reach), elsewhere a character on the console. With `tour` on the command
//! line it blinks three times and switches off.

#![no_std]
#![no_main]

use boot::BootInfo;
use core::{
    future::poll_fn,
    panic::PanicInfo,
    sync::atomic::{AtomicBool, Ordering::*},
    task::Poll,
};
use drivers::{gpio::Output, serial::Serial};
use executor::{block_on_simple, sync::WakerSlot};
use hal::{
    bring_up, clock,
    context::Frame,
    irq::{self, Line},
    power::{self, Status},
    traps::{Fault, Switch, Upcalls},
};

boot::entry!(main);

const PIN: u32 = 21;
/// Nanoseconds that it is on, and off.
const HALF: u64 = 250_000_000;
const TOUR: usize = 3;

fn main(info: &'static BootInfo) -> ! {
    static UPCALLS: &dyn Upcalls = &Image;
    hal::traps::register(&UPCALLS);
    let mut console = Serial::open(info.platform.uart);
    bring_up::start_clock(info.entered.counter);
    irq::enable_each_core();
    let mut say = |text: &str| {
        if let Some((console, _)) = &mut console {
            console.send(text.as_bytes());
        }
    };
    let times = match info.options(&mut |_| {}).tour {
        true => TOUR,
        false => usize::MAX,
    };
    match Output::new(info.platform.board, PIN) {
        Some(mut pin) => {
            say("GPIO 21 blinks\r\n");
            let set = |on| {
                pin.set(on);
                assert_eq!(pin.is_high(), on, "the pin does not follow");
            };
            block_on_simple(blink(times, set));
        }
        None => {
            say("this blinks: ");
            // A star, and a blank in its place.
            block_on_simple(blink(times, |on| say(if on { "*\x08" } else { " \x08" })));
        }
    }
    say("\r\nthat was all; switching off\r\n");
    power::exit(Status::Success)
}

async fn blink(times: usize, mut set: impl FnMut(bool)) {
    for _ in 0..times {
        set(true);
        sleep(HALF).await;
        set(false);
        sleep(HALF).await;
    }
}

static HAS_FIRED: AtomicBool = AtomicBool::new(false);
static SLEEPER: WakerSlot = WakerSlot::new();

/// Waits for the timer. One at a time: there is one timer.
async fn sleep(nanos: u64) {
    HAS_FIRED.store(false, Relaxed);
    clock::arm(clock::now() + nanos);
    poll_fn(|context| {
        SLEEPER.register(context.waker());
        // After the waker is there: an interrupt that comes from here on wakes it. Acquire pairs with
        // the release in `on_timer`.
        match HAS_FIRED.load(Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await
}

struct Image;

impl Upcalls for Image {
    fn on_timer(&self) {
        // Release pairs with the acquire in `sleep`.
        HAS_FIRED.store(true, Release);
        SLEEPER.wake();
    }

    fn on_kick(&self) {}

    fn on_line(&self, line: Line) {
        irq::disable_line(line);
    }

    fn on_fault(&self, fault: &Fault, _: &Frame) -> Switch {
        panic!("{fault}");
    }
}

/// Says nothing, as whoever panics may be using the console; the status tells.
#[panic_handler]
fn on_panic(_: &PanicInfo<'_>) -> ! {
    power::exit(Status::Panic)
}
