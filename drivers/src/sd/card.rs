//! A card: how it is set up, how large it is, and its sectors.

use super::host::{Answer, Fault, Host, Session, boxed, check};
use crate::block::{self, Disk, DiskError, SECTOR};
use alloc::sync::Arc;
use executor::time::{Duration, Instant, sleep};

/// How long a card may take until it is ready.
const START: Duration = Duration::from_secs(10);
/// So often a request is tried.
const TRIES: u32 = 3;
/// Most sectors by one command: others have their turn after it.
const PIECE: usize = 128;
/// What is in a card's status if it can take a command for data: its state is "transfer", and it has room.
const READY: u32 = 4 << 9 | 1 << 8;
const READY_BITS: u32 = 0xf << 9 | 1 << 8;

/// A card that is set up.
pub(super) struct Card {
    host: Arc<Host>,
    sectors: u64,
    is_read_only: bool,
    /// Addressed by sectors; else by bytes.
    by_sectors: bool,
    /// Its number on the bus, in the upper half.
    address: u32,
}

impl Card {
    /// Finds the card at a controller, and sets it up.
    pub(super) async fn find(host: Arc<Host>) -> Result<Self, Fault> {
        let mut session = host.session().await?;
        session.reset().await?;
        session.command(0, 0, Answer::None).await?;
        // A voltage that all have, and a pattern that comes back. Old cards do not know it.
        let is_newer = match session.command(8, 0x1aa, Answer::Short).await {
            Ok(0x1aa) => true,
            Ok(_) => return Err(Fault::Wrong("it does not repeat what it was sent")),
            Err(Fault::Silent) => false,
            Err(fault) => return Err(fault),
        };
        let conditions = wait_ready(&mut session, is_newer).await?;
        let by_sectors = is_newer && conditions & 1 << 30 != 0;
        session.command(2, 0, Answer::Long).await?;
        let address = session.command(3, 0, Answer::Short).await? & 0xffff_0000;
        session.command(9, address, Answer::Long).await?;
        let (sectors, is_read_only) = describe(session.long_answer(), by_sectors)?;
        check(session.command(7, address, Answer::Busy).await?)?;
        check(session.command(55, address, Answer::Short).await?)?;
        check(session.command(6, 2, Answer::Short).await?)?;
        session.use_four_lines();
        check(session.command(16, SECTOR as u32, Answer::Short).await?)?;
        session.set_clock(25_000_000).await?;
        drop(session);
        Ok(Self {
            host,
            sectors,
            is_read_only,
            by_sectors,
            address,
        })
    }

    /// Where it has these sectors.
    fn place(&self, first: u64, length: usize) -> Result<(), DiskError> {
        if !length.is_multiple_of(SECTOR) {
            return Err(DiskError::Unaligned);
        }
        let end = first.checked_add((length / SECTOR) as u64);
        match end {
            Some(end) if end <= self.sectors => Ok(()),
            _ => Err(DiskError::OutOfRange),
        }
    }

    /// How the card calls a sector.
    fn argument(&self, sector: u64) -> u32 {
        // `describe` has seen to it that it fits.
        match self.by_sectors {
            true => sector as u32,
            false => (sector * SECTOR as u64) as u32,
        }
    }

    /// Waits until the card has done all that it was told, and can be told more.
    async fn settle(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        let until = Instant::now() + START;
        loop {
            let status = session.command(13, self.address, Answer::Short).await?;
            check(status)?;
            if status & READY_BITS == READY {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(Fault::Late);
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Writes sectors, and hears from the card that it has. What goes wrong after it took the data it says once, in its next status: asked for here, it
    /// is this write's fault, and not that of the next command, where another try would hide it.
    async fn write_piece(
        &self,
        session: &mut Session<'_>,
        argument: u32,
        piece: &[u8],
    ) -> Result<(), Fault> {
        session.write(argument, piece).await?;
        self.settle(session).await
    }

    /// Brings card and controller back to where they can be used, if something was left midway.
    async fn recover(&self, session: &mut Session<'_>) -> Result<(), Fault> {
        if !session.is_midway() {
            return Ok(());
        }
        session.recover().await?;
        // Stops what was being done; if there was nothing, it does not answer, or complains.
        let _ = session.command(12, 0, Answer::Busy).await;
        // What it complained of is gone when it has told it once.
        let _ = session.command(13, self.address, Answer::Short).await;
        session.recover().await?;
        self.settle(session).await
    }

    /// Whether it is to be tried once more after this.
    async fn may_try_again(
        &self,
        session: &mut Session<'_>,
        fault: Fault,
        tries: &mut u32,
    ) -> Result<(), Fault> {
        *tries += 1;
        if fault == Fault::Gone || *tries >= TRIES {
            return Err(fault);
        }
        session.note_again();
        self.recover(session).await
    }
}

impl Disk for Card {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read<'a>(&'a self, first: u64, into: &'a mut [u8]) -> block::Answer<'a> {
        boxed(async move {
            self.place(first, into.len())?;
            for (number, piece) in into.chunks_mut(PIECE * SECTOR).enumerate() {
                let argument = self.argument(first + (number * PIECE) as u64);
                let mut session = self.host.session().await?;
                self.recover(&mut session).await?;
                let mut tries = 0;
                while let Err(fault) = session.read(argument, piece).await {
                    self.may_try_again(&mut session, fault, &mut tries).await?;
                }
            }
            Ok(())
        })
    }

    fn write<'a>(&'a self, first: u64, from: &'a [u8]) -> block::Answer<'a> {
        boxed(async move {
            self.place(first, from.len())?;
            if self.is_read_only {
                return Err(DiskError::ReadOnly);
            }
            for (number, piece) in from.chunks(PIECE * SECTOR).enumerate() {
                let argument = self.argument(first + (number * PIECE) as u64);
                let mut session = self.host.session().await?;
                self.recover(&mut session).await?;
                let mut tries = 0;
                while let Err(fault) = self.write_piece(&mut session, argument, piece).await {
                    self.may_try_again(&mut session, fault, &mut tries).await?;
                }
            }
            Ok(())
        })
    }

    /// A card has written what it took as soon as it is ready for more. Each write has waited for that; one that was dropped meanwhile has not.
    fn flush(&self) -> block::Answer<'_> {
        boxed(async {
            let mut session = self.host.session().await?;
            self.recover(&mut session).await?;
            Ok(self.settle(&mut session).await?)
        })
    }
}

/// Tells the card the voltages, again and again, until it is ready: what it says of itself then.
async fn wait_ready(session: &mut Session<'_>, is_newer: bool) -> Result<u32, Fault> {
    let until = Instant::now() + START;
    let large = if is_newer { 1 << 30 } else { 0 };
    loop {
        session.command(55, 0, Answer::Short).await?;
        let conditions = session
            .command(41, large | 0x00ff_8000, Answer::Unchecked)
            .await?;
        if conditions & 1 << 31 != 0 {
            return Ok(conditions);
        }
        if Instant::now() > until {
            return Err(Fault::Late);
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// How many sectors a card has, and whether it cannot be written to. Its register is given without the lowest 8 bits.
fn describe(register: u128, by_sectors: bool) -> Result<(u64, bool), Fault> {
    let bits = |high: u32, low: u32| (register >> (low - 8)) as u64 & ((1 << (high - low + 1)) - 1);
    let sectors = match bits(127, 126) {
        0 => {
            let length = bits(83, 80);
            if !(9..=11).contains(&length) {
                return Err(Fault::Wrong("the length of its blocks"));
            }
            (bits(73, 62) + 1) << (bits(49, 47) + 2) << (length - 9)
        }
        1 => (bits(69, 48) + 1) << 10,
        _ => return Err(Fault::Wrong("the kind of its description")),
    };
    // What it is addressed by has 32 bits.
    let most = if by_sectors {
        1 << 32
    } else {
        (1 << 32) / SECTOR as u64
    };
    match sectors {
        0 => Err(Fault::Wrong("its size")),
        _ => Ok((sectors.min(most), bits(13, 12) != 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the controller gives it.
    fn register(fields: &[(u32, u128)]) -> u128 {
        fields.iter().map(|(low, value)| value << (low - 8)).sum()
    }

    #[test]
    fn the_size_of_a_card_is_read_from_its_description() {
        // 1 GiB by sectors of 512; 64 MiB, 2 GiB by blocks of 1024; and one that would not fit.
        let large = register(&[(126, 1), (48, 2047)]);
        assert_eq!(describe(large, true), Ok((2 << 20, false)));
        let small = register(&[(80, 9), (62, 1023), (47, 5)]);
        assert_eq!(describe(small, false), Ok((1 << 17, false)));
        let medium = register(&[(80, 10), (62, 4095), (47, 7), (12, 1)]);
        assert_eq!(describe(medium, false), Ok((1 << 22, true)));
        let largest = register(&[(126, 1), (48, (1 << 22) - 1)]);
        assert_eq!(describe(largest, true), Ok((1 << 32, false)));
        assert_eq!(describe(largest, false), Ok((1 << 23, false)));
    }

    #[test]
    fn a_description_that_cannot_be_is_refused() {
        for wrong in [
            register(&[(126, 2)]),
            register(&[(126, 3)]),
            register(&[(80, 15)]),
            0,
        ] {
            assert!(matches!(describe(wrong, true), Err(Fault::Wrong(_))));
        }
    }
}
