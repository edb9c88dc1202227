//! SD cards, by the host controller of a Raspberry Pi: an SDHCI ("EMMC"), driven by its interrupts, without DMA.
//!
//! | | |
//! |---|---|
//! | `host` | the controller: commands, answers, data, and what becomes of errors |
//! | `card` | the card: how it is set up, how large it is, and its sectors |
//!
//! The interrupt half notes what the controller says and wakes; the task half sends a command, waits for what is noted, and moves the data
//! itself, a block at a time. One request has the card at a time, in the order in which they came. One that is dropped in the middle leaves
//! a note, by which the next resets the lines and stops the card first.
//!
//! Tried in QEMU's raspi3b only. What a card says of itself is not believed if it cannot be.

mod card;
mod host;

use crate::block::{self, Disk};
use alloc::{boxed::Box, format, string::String, sync::Arc};
use card::Card;
use core::{future::Future, pin::Pin, sync::atomic::Ordering::Relaxed};
use executor::{
    io::{Attached, Device, Driver, Id, Registers, StartError, Started, lines},
    sync::OnceCell,
    task::{Builder, TaskHandle},
};
use hal::paging::map_device;
use host::Host;

/// The driver.
pub struct Sdhci;

impl Driver for Sdhci {
    fn name(&self) -> &'static str {
        "sd"
    }

    fn drives(&self, device: &Device) -> bool {
        device.id == Id::BuiltIn("sdhci")
    }

    /// Looks for a card in a task of its own, which takes a while, and offers it.
    fn start(&self, device: &Device) -> Result<Box<dyn Started>, StartError> {
        let Registers::Memory { address, length } = device.registers else {
            return Err(StartError::Lacks("registers in memory"));
        };
        let line = device.line.ok_or(StartError::Lacks("interrupt"))?;
        let registers = map_device(address, length).map_err(|_| StartError::NoMemory)?;
        // SAFETY: they were just mapped, for good, and the device is this driver's.
        let host = Arc::new(unsafe { Host::new(registers) });
        let line = lines::attach(line, None, host.clone())?;
        let found = Arc::new(OnceCell::new());
        let looks = look(host.clone(), found.clone());
        let looks = Builder::new().name("sd").try_spawn(looks);
        let looks = looks.map_err(|_| StartError::NoMemory)?;
        Ok(Box::new(Running {
            host,
            line,
            found,
            looks,
        }))
    }
}

/// What was found: the card, or why there is none.
type Finding = OnceCell<Result<Arc<dyn Disk>, String>>;

async fn look(host: Arc<Host>, found: Arc<Finding>) {
    let finding = match Card::find(host).await {
        Ok(card) => {
            let card: Arc<dyn Disk> = Arc::new(card);
            block::offer(card.clone());
            Ok(card)
        }
        Err(why) => Err(format!("{why}")),
    };
    let _ = found.set(finding);
}

struct Running {
    host: Arc<Host>,
    line: Attached,
    found: Arc<Finding>,
    looks: TaskHandle<()>,
}

impl Started for Running {
    fn stop(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            self.looks.cancel();
            let _ = self.looks.await;
            self.host.stop().await;
            drop(self.line);
            // Nobody is to take a card that is gone.
            if let Some(Ok(card)) = self.found.get() {
                block::withdraw(card).await;
            }
        })
    }

    fn status(&self) -> String {
        let counts = &self.host.counts;
        match self.found.get() {
            None => "looking for a card".into(),
            Some(Err(why)) => why.clone(),
            Some(Ok(card)) => format!(
                "{} MiB, {} read, {} written, {} tries again, {} interrupts",
                card.sectors() >> 11,
                counts.read.load(Relaxed),
                counts.written.load(Relaxed),
                counts.again.load(Relaxed),
                self.line.count()
            ),
        }
    }
}
