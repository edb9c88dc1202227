//! An SDHCI: commands, answers, data. Whoever has the [`Session`] of a [`Host`] may use it.

use alloc::boxed::Box;
use core::{
    fmt,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*},
};
use executor::{
    io::{OnInterrupt, Seen},
    sync::{Mutex, MutexGuard, Notify},
    time::{Duration, Instant, sleep, timeout_at},
};

// Registers, all of 32 bits.
const BLOCKS: usize = 0x04;
const ARGUMENT: usize = 0x08;
const COMMAND: usize = 0x0c;
const ANSWER: usize = 0x10;
const DATA: usize = 0x20;
const STATUS: usize = 0x24;
const CONTROL: usize = 0x28;
const CLOCK: usize = 0x2c;
const EVENTS: usize = 0x30;
const NOTED: usize = 0x34;
const INTERRUPTING: usize = 0x38;
const CAPABILITIES: usize = 0x40;

// Of `STATUS`.
const COMMAND_BUSY: u32 = 1 << 0;
const DATA_BUSY: u32 = 1 << 1;

// Of `EVENTS`.
const COMMAND_DONE: u32 = 1 << 0;
const DATA_DONE: u32 = 1 << 1;
const CAN_WRITE: u32 = 1 << 4;
const CAN_READ: u32 = 1 << 5;
const NO_ANSWER: u32 = 1 << 16;
const ERRORS: u32 = 0x017f_0000;
const HEARD: u32 = COMMAND_DONE | DATA_DONE | CAN_WRITE | CAN_READ | ERRORS;

// Of `CONTROL`.
const FOUR_BITS: u32 = 1 << 1;
const POWER: u32 = 0xf << 8;

// Of `CLOCK`.
const CLOCK_RUNS: u32 = 1 << 0;
const CLOCK_IS_STABLE: u32 = 1 << 1;
const CLOCK_OUT: u32 = 1 << 2;
const LONGEST: u32 = 0xe << 16;
const RESET_ALL: u32 = 1 << 24;
const RESET_COMMAND: u32 = 1 << 25;
const RESET_DATA: u32 = 1 << 26;

// Of `COMMAND`.
const COUNTED: u32 = 1 << 1;
const STOPPED_BY_ITSELF: u32 = 1 << 2;
const READS: u32 = 1 << 4;
const SEVERAL: u32 = 1 << 5;
const HAS_DATA: u32 = 1 << 21;

/// Generous: the host of an emulator may be busy. A card has half a second for anything.
const LIMIT: Duration = Duration::from_secs(10);
/// The fastest that the controller's own clock may be, if it does not say.
const FASTEST: u32 = 250_000_000;

/// What kind of answer a command has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Answer {
    None = 0,
    /// 48 bits, checked.
    Short = 0b10 << 16 | 1 << 19 | 1 << 20,
    /// 48 bits without a sum.
    Unchecked = 0b10 << 16,
    /// 48 bits, and busy after it.
    Busy = 0b11 << 16 | 1 << 19 | 1 << 20,
    /// 136 bits.
    Long = 0b01 << 16 | 1 << 19,
}

/// Why a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// No card answers.
    Silent,
    /// The controller says that something went wrong: the bits.
    Error(u32),
    /// The card says that something went wrong: its status.
    Card(u32),
    /// It took too long.
    Late,
    /// What the card says cannot be: what.
    Wrong(&'static str),
    /// It was stopped.
    Gone,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => f.write_str("there is no card"),
            Self::Error(bits) => write!(f, "the controller reports errors {bits:#x}"),
            Self::Card(status) => write!(f, "the card reports status {status:#x}"),
            Self::Late => f.write_str("the card takes too long"),
            Self::Wrong(what) => write!(f, "the card says what cannot be: {what}"),
            Self::Gone => f.write_str("the controller was stopped"),
        }
    }
}

/// How much was done.
#[derive(Default)]
pub(super) struct Counts {
    pub read: AtomicU64,
    pub written: AtomicU64,
    pub again: AtomicU64,
}

/// What the interrupt and the tasks share.
pub(super) struct Host {
    registers: usize,
    /// What has happened and was not waited for yet.
    events: AtomicU32,
    bell: Notify,
    is_stopped: AtomicBool,
    session: Mutex<State>,
    pub counts: Counts,
}

/// For who has the controller.
struct State {
    /// A command was sent, and not seen to its end.
    is_midway: bool,
}

/// The interrupt half.
impl OnInterrupt for Host {
    fn on_interrupt(&self) -> Seen {
        let events = self.read(EVENTS) & HEARD;
        if events == 0 {
            return Seen::Nothing;
        }
        self.write(EVENTS, events);
        // Release pairs with the acquire in `wait`: what is woken sees it.
        self.events.fetch_or(events, Release);
        self.bell.notify_one();
        Seen::Work
    }
}

impl Host {
    /// # Safety
    /// At `registers` are those of an SDHCI, mapped for good, and nobody else uses them.
    pub(super) unsafe fn new(registers: usize) -> Self {
        Self {
            registers,
            events: AtomicU32::new(0),
            bell: Notify::new(),
            is_stopped: AtomicBool::new(false),
            session: Mutex::new(State { is_midway: false }),
            counts: Counts::default(),
        }
    }

    fn read(&self, register: usize) -> u32 {
        // SAFETY: `new`'s caller has mapped them for good.
        unsafe { ((self.registers + register) as *const u32).read_volatile() }
    }

    fn write(&self, register: usize, value: u32) {
        // SAFETY: as above.
        unsafe { ((self.registers + register) as *mut u32).write_volatile(value) }
    }

    /// Waits for its turn.
    pub(super) async fn session(&self) -> Result<Session<'_>, Fault> {
        let state = self.session.lock().await;
        match self.is_stopped.load(Acquire) {
            true => Err(Fault::Gone),
            false => Ok(Session { host: self, state }),
        }
    }

    /// Lets who has it come to an end, and then nobody else.
    pub(super) async fn stop(&self) {
        // Pairs with the acquire in `session` and `wait`.
        self.is_stopped.store(true, Release);
        self.bell.notify_one();
        let _state = self.session.lock().await;
        self.write(INTERRUPTING, 0);
        self.write(CLOCK, 0);
    }
}

/// The controller, for one at a time.
pub(super) struct Session<'h> {
    host: &'h Host,
    state: MutexGuard<'h, State>,
}

impl Session<'_> {
    /// Waits until one of `wanted` has happened.
    async fn wait(&mut self, wanted: u32) -> Result<(), Fault> {
        let until = Instant::now() + LIMIT;
        loop {
            let events = self.host.events.load(Acquire);
            if events & ERRORS != 0 {
                return Err(match events & ERRORS {
                    NO_ANSWER => Fault::Silent,
                    errors => Fault::Error(errors),
                });
            }
            if events & wanted != 0 {
                self.host.events.fetch_and(!wanted, Relaxed);
                return Ok(());
            }
            if self.host.is_stopped.load(Acquire) {
                return Err(Fault::Gone);
            }
            // A bell that has rung since the look is heard.
            if timeout_at(until, self.host.bell.notified()).await.is_err()
                && self.host.events.load(Acquire) & (wanted | ERRORS) == 0
            {
                return Err(Fault::Late);
            }
        }
    }

    /// Waits until these bits of a register are 0. Such things take microseconds, and no interrupt tells of them.
    async fn wait_clear(&mut self, register: usize, bits: u32) -> Result<(), Fault> {
        let until = Instant::now() + LIMIT;
        while self.host.read(register) & bits != 0 {
            if Instant::now() > until {
                return Err(Fault::Late);
            }
            sleep(Duration::from_micros(100)).await;
        }
        Ok(())
    }

    /// Sets the controller up, as if it had just been switched on.
    pub(super) async fn reset(&mut self) -> Result<(), Fault> {
        self.host.write(INTERRUPTING, 0);
        self.host.write(CLOCK, RESET_ALL);
        self.wait_clear(CLOCK, RESET_ALL).await?;
        self.host.write(CONTROL, POWER);
        self.set_clock(400_000).await?;
        self.host.write(EVENTS, u32::MAX);
        self.host.events.store(0, Relaxed);
        self.host.write(NOTED, HEARD);
        self.host.write(INTERRUPTING, HEARD);
        self.state.is_midway = false;
        Ok(())
    }

    /// At most so many ticks of the card's clock in a second.
    pub(super) async fn set_clock(&mut self, most: u32) -> Result<(), Fault> {
        let base = match self.host.read(CAPABILITIES) >> 8 & 0xff {
            0 => FASTEST,
            megahertz => megahertz * 1_000_000,
        };
        let divisor = base.div_ceil(2 * most).min(0x3ff);
        let divisor = (divisor & 0xff) << 8 | (divisor >> 8) << 6;
        self.host.write(CLOCK, LONGEST);
        self.host.write(CLOCK, LONGEST | divisor | CLOCK_RUNS);
        let until = Instant::now() + LIMIT;
        while self.host.read(CLOCK) & CLOCK_IS_STABLE == 0 {
            if Instant::now() > until {
                return Err(Fault::Late);
            }
            sleep(Duration::from_micros(100)).await;
        }
        self.host
            .write(CLOCK, LONGEST | divisor | CLOCK_RUNS | CLOCK_OUT);
        Ok(())
    }

    /// Data by four lines, not one.
    pub(super) fn use_four_lines(&mut self) {
        self.host
            .write(CONTROL, self.host.read(CONTROL) | FOUR_BITS);
    }

    /// Resets the lines, if something was left midway: an error, or a request that was dropped.
    pub(super) async fn recover(&mut self) -> Result<(), Fault> {
        if !self.state.is_midway {
            return Ok(());
        }
        let clock = self.host.read(CLOCK);
        // One after the other: QEMU does not know both at once.
        for reset in [RESET_COMMAND, RESET_DATA] {
            self.host.write(CLOCK, clock | reset);
            self.wait_clear(CLOCK, reset).await?;
        }
        self.host.write(EVENTS, u32::MAX);
        self.host.events.store(0, Relaxed);
        self.state.is_midway = false;
        Ok(())
    }

    /// Whether [`recover`](Self::recover) has something to do.
    pub(super) fn is_midway(&self) -> bool {
        self.state.is_midway
    }

    fn begin(&mut self, number: u32, argument: u32, flags: u32) {
        self.state.is_midway = true;
        self.host.events.store(0, Relaxed);
        self.host.write(ARGUMENT, argument);
        self.host.write(COMMAND, number << 24 | flags);
    }

    /// Sends a command, and waits for the answer.
    pub(super) async fn command(
        &mut self,
        number: u32,
        argument: u32,
        answer: Answer,
    ) -> Result<u32, Fault> {
        self.recover().await?;
        let busy = if answer == Answer::Busy { DATA_BUSY } else { 0 };
        self.wait_clear(STATUS, COMMAND_BUSY | busy).await?;
        self.begin(number, argument, answer as u32);
        self.wait(COMMAND_DONE).await?;
        if answer == Answer::Busy {
            self.wait(DATA_DONE).await?;
        }
        self.state.is_midway = false;
        Ok(self.host.read(ANSWER))
    }

    /// The answer of 136 bits, without its sum: bit 8 of it is bit 0 here.
    pub(super) fn long_answer(&self) -> u128 {
        let word = |number: usize| u128::from(self.host.read(ANSWER + 4 * number)) << (32 * number);
        word(0) | word(1) | word(2) | word(3)
    }

    async fn begin_data(
        &mut self,
        number: u32,
        argument: u32,
        blocks: usize,
        flags: u32,
    ) -> Result<(), Fault> {
        self.recover().await?;
        self.wait_clear(STATUS, COMMAND_BUSY | DATA_BUSY).await?;
        self.host.write(BLOCKS, 512 | (blocks as u32) << 16);
        let several = match blocks {
            1 => 0,
            _ => COUNTED | STOPPED_BY_ITSELF | SEVERAL,
        };
        self.begin(
            number,
            argument,
            Answer::Short as u32 | HAS_DATA | several | flags,
        );
        self.wait(COMMAND_DONE).await?;
        check(self.host.read(ANSWER))
    }

    /// Reads blocks of 512 bytes, at most 65535.
    pub(super) async fn read(&mut self, argument: u32, into: &mut [u8]) -> Result<(), Fault> {
        let blocks = into.len() / 512;
        let number = if blocks == 1 { 17 } else { 18 };
        self.begin_data(number, argument, blocks, READS).await?;
        for block in into.chunks_exact_mut(512) {
            self.wait(CAN_READ).await?;
            for word in block.chunks_exact_mut(4) {
                word.copy_from_slice(&self.host.read(DATA).to_le_bytes());
            }
        }
        self.finish().await?;
        self.host.counts.read.fetch_add(blocks as u64, Relaxed);
        Ok(())
    }

    /// Writes blocks of 512 bytes, at most 65535.
    pub(super) async fn write(&mut self, argument: u32, from: &[u8]) -> Result<(), Fault> {
        let blocks = from.len() / 512;
        let number = if blocks == 1 { 24 } else { 25 };
        self.begin_data(number, argument, blocks, 0).await?;
        for block in from.chunks_exact(512) {
            self.wait(CAN_WRITE).await?;
            for word in block.chunks_exact(4) {
                let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                self.host.write(DATA, word);
            }
        }
        self.finish().await?;
        self.host.counts.written.fetch_add(blocks as u64, Relaxed);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), Fault> {
        self.wait(DATA_DONE).await?;
        self.state.is_midway = false;
        Ok(())
    }

    /// Something is tried once more.
    pub(super) fn note_again(&self) {
        self.host.counts.again.fetch_add(1, Relaxed);
    }
}

/// The status of a card, in most answers.
pub(super) fn check(status: u32) -> Result<(), Fault> {
    match status & 0xfdf9_a000 {
        0 => Ok(()),
        _ => Err(Fault::Card(status)),
    }
}

impl From<Fault> for crate::block::DiskError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Gone => Self::Gone,
            Fault::Wrong(what) => Self::Wrong(what),
            Fault::Silent | Fault::Error(_) | Fault::Card(_) | Fault::Late => Self::Failed,
        }
    }
}

/// Boxed, as a disk's answers are.
pub(super) fn boxed<'a>(
    work: impl Future<Output = Result<(), crate::block::DiskError>> + Send + 'a,
) -> crate::block::Answer<'a> {
    Box::pin(work)
}
