//! `devices`, and `loopback`, by which the serial line is tested.

use super::terminal::Terminal;
use crate::{console, println};
use executor::io::{Id, Registers, devices, lines};

/// What was found, and where its interrupts go; or stops or starts one.
pub(super) async fn devices(argument: &str) {
    match argument.split_once(' ') {
        Some(("stop", "uart0")) => {
            println!("  uart0 is the console: what is typed would not be heard any more");
            return;
        }
        Some(("stop", name)) => {
            match devices::stop(name.trim()).await {
                true => println!("  {name} is stopped"),
                false => println!("  no device called `{name}` runs"),
            }
            return;
        }
        Some(("start", name)) => {
            match devices::start(name.trim()).await {
                true => println!("  {name} runs"),
                false => println!("  no device called `{name}` was started"),
            }
            return;
        }
        None if argument.is_empty() => {}
        _ => {
            println!("  devices; devices stop <name>; devices start <name>");
            return;
        }
    }
    println!("  {:<8} {:<16} {:<24} state", "name", "kind", "registers");
    for info in devices::devices().await {
        let kind = match info.device.id {
            Id::BuiltIn(name) | Id::Compatible(name) => alloc::string::String::from(name),
            Id::Pci { vendor, device } => alloc::format!("pci {vendor:04x}:{device:04x}"),
            Id::Virtio(id) => alloc::format!("virtio {id}"),
        };
        let registers = match info.device.registers {
            Registers::Memory { address, length } => {
                alloc::format!("{address:#x}, {length} bytes")
            }
            Registers::Ports { first, count } => alloc::format!("{count} ports at {first:#x}"),
            Registers::Pci {
                bus,
                device,
                function,
            } => alloc::format!("pci {bus:02x}:{device:02x}.{function}"),
        };
        let name = info.name.as_deref().unwrap_or("-");
        println!("  {name:<8} {kind:<16} {registers:<24} {}", info.state);
    }
    println!("  line  core  interrupts");
    for line in lines::lines().unwrap_or_default() {
        println!(
            "  {:4}  {:4}  {:10}{}",
            line.line.0,
            line.core,
            line.count,
            if line.is_shut { "  shut off" } else { "" }
        );
    }
}

/// Sends back what comes.
pub(super) async fn loopback(terminal: &mut Terminal, argument: &str) {
    let Ok(count) = argument.parse::<usize>() else {
        println!("  loopback <bytes>: how many");
        return;
    };
    println!("  ready for {count} bytes");
    let (mut left, mut sum) = (count, 0u64);
    let mut room = [0; 512];
    while left > 0 {
        let most = left.min(room.len());
        let got = terminal.read(&mut room[..most]).await;
        for byte in &room[..got] {
            sum = sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
        }
        console::write(&room[..got]).await;
        left -= got;
    }
    println!("\n  sent back {count} bytes, their sum is {sum:#018x}");
}
