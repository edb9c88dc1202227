//! Looks into a guest that no longer answers: stops it and walks each core's frame pointers
//! through QEMU's monitor, so that even a core which hangs with interrupts off is shown.

use crate::board::Arch;
use crate::problem::Result;
use crate::qmp::Qmp;
use crate::symbols::Symbols;
use serde_json::json;
use std::fmt::Write;

/// Frames shown of one core; a broken chain may be a ring.
const DEEPEST: usize = 48;

/// A backtrace of every core, as text.
pub fn all_cores(qmp: &mut Qmp, arch: Arch, symbols: &Symbols) -> String {
    let mut text = String::new();
    if let Err(problem) = describe(qmp, arch, symbols, &mut text) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "(no more to be had: {problem})");
    }
    text
}

fn describe(qmp: &mut Qmp, arch: Arch, symbols: &Symbols, text: &mut String) -> Result<()> {
    qmp.execute("stop", json!({}))?;
    let cores = qmp.execute("query-cpus-fast", json!({}))?;
    let indices: Vec<u64> = cores
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|core| core["cpu-index"].as_u64())
        .collect();
    for core in indices {
        let listing = qmp.monitor(core, "info registers")?;
        let Some(registers) = Registers::read(arch, &listing) else {
            let _ = writeln!(text, "core {core}: QEMU lists no registers for it");
            continue;
        };
        let _ = writeln!(text, "core {core}{}", registers.state);
        frame(text, 0, registers.pc, registers.pc, symbols);
        let mut pointer = registers.frame;
        for depth in 1..DEEPEST {
            if pointer == 0 || pointer % 8 != 0 {
                break;
            }
            let words = qmp.monitor(core, &format!("x /2gx {pointer:#x}"))?;
            let Some((next, return_address)) = two_words(&words) else {
                break;
            };
            if return_address == 0 {
                break;
            }
            // The call is before the address it returns to, maybe at the very end of a function.
            frame(text, depth, return_address, return_address - 1, symbols);
            if next == pointer {
                break;
            }
            pointer = next;
        }
    }
    Ok(())
}

fn frame(text: &mut String, depth: usize, shown: u64, looked_up: u64, symbols: &Symbols) {
    let name = symbols.name(looked_up).unwrap_or_else(|| "?".to_string());
    let _ = writeln!(text, "  {depth:2}: {shown:#018x} {name}");
}

/// What a backtrace starts from.
struct Registers {
    pc: u64,
    frame: u64,
    /// What else is worth saying, with a leading space.
    state: &'static str,
}

impl Registers {
    /// Reads what `info registers` prints.
    fn read(arch: Arch, listing: &str) -> Option<Registers> {
        let value = |name: &str| {
            let words = || listing.split_whitespace();
            let digits = words().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
            u64::from_str_radix(digits, 16).ok()
        };
        let (pc, frame) = match arch {
            // A core that was never started is in 16-bit mode, where the names are shorter.
            Arch::X86_64 => (
                value("RIP").or(value("EIP"))?,
                value("RBP").or(value("EBP"))?,
            ),
            Arch::Aarch64 => (value("PC")?, value("X29")?),
        };
        let halted = arch == Arch::X86_64 && value("HLT") == Some(1);
        let state = if halted { " (halted)" } else { "" };
        Some(Registers { pc, frame, state })
    }
}

/// Reads `0000000000101ff0: 0x0000000000000001 0x0000000000000002`.
fn two_words(text: &str) -> Option<(u64, u64)> {
    let (_, values) = text.trim().split_once(": ")?;
    let mut words = values
        .split_whitespace()
        .map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    Some((words.next()??, words.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_read_from_what_the_monitor_prints() {
        let x86 = "\r\nCPU#0\r\nRAX=0000000000000000 RBX=0000000000000001\r\nRSI=0 RDI=0 RBP=000000000011cff0 RSP=2\r\n\
                   RIP=ffffffff80101234 RFL=00000046 [---Z-P-] CPL=0 II=0 A20=1 SMM=0 HLT=1\r\n";
        let registers = Registers::read(Arch::X86_64, x86).unwrap();
        assert_eq!(
            (registers.pc, registers.frame),
            (0xffff_ffff_8010_1234, 0x11_cff0)
        );
        assert_eq!(registers.state, " (halted)");
        let never_started = "EAX=00000000 EBP=00000000\r\nEIP=0000fff0 EFL=00000002 HLT=1\r\n";
        let registers = Registers::read(Arch::X86_64, never_started).unwrap();
        assert_eq!((registers.pc, registers.frame), (0xfff0, 0));
        let arm = " PC=0000000040081234 X00=0000000000000000\r\nX28=0000000000000000 X29=00000000400a0fe0 X30=1\r\n";
        let registers = Registers::read(Arch::Aarch64, arm).unwrap();
        assert_eq!((registers.pc, registers.frame), (0x4008_1234, 0x400a_0fe0));
        assert!(Registers::read(Arch::Aarch64, "Error: invalid CPU").is_none());
    }

    #[test]
    fn memory_is_read_from_what_the_monitor_prints() {
        let text = "ffffffff80101ff0: 0xffffffff80102000 0x0000000000001234\r\n";
        assert_eq!(two_words(text), Some((0xffff_ffff_8010_2000, 0x1234)));
        assert_eq!(two_words("Cannot access memory at address 0x0\r\n"), None);
    }
}
