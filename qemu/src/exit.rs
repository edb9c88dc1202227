//! What the end of QEMU's process says about its guest: [`GuestExit`].

use crate::board::Arch;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Guests exit with this plus their code, so that no code looks like QEMU's own statuses.
const STATUS_BASE: i32 = 0x10;

/// How a guest ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GuestExit {
    /// It exited with a code: 0 all well, 1 tests failed, 2 panicked.
    Code(u8),
    /// It powered the machine off without a code.
    PoweredOff,
    /// It reset the machine, on purpose or by a triple fault.
    Reset,
    /// It told QEMU's panic device that it panicked.
    PanicDevice,
    /// QEMU was asked to quit.
    Quit,
    /// QEMU could not run it, and said why.
    QemuFailed { status: i32, said: String },
    /// QEMU was killed.
    QemuKilled { signal: i32, said: String },
}

impl GuestExit {
    /// Reads QEMU's exit status, the `reason` of QMP's SHUTDOWN event if there was one, and what QEMU `said`.
    pub fn classify(arch: Arch, status: ExitStatus, reason: Option<&str>, said: &str) -> GuestExit {
        let said = said.trim().to_string();
        let Some(status) = status.code() else {
            return GuestExit::QemuKilled {
                signal: status.signal().unwrap_or(0),
                said,
            };
        };
        let byte = match arch {
            // isa-debug-exit makes (value << 1) | 1 of the byte written.
            Arch::X86_64 if status & 1 == 1 => status >> 1,
            Arch::X86_64 => -1,
            Arch::Aarch64 => status,
        };
        if byte >= STATUS_BASE {
            return GuestExit::Code((byte - STATUS_BASE) as u8);
        }
        match (status, reason) {
            (0, Some("guest-reset")) => GuestExit::Reset,
            (0, Some("guest-panic")) => GuestExit::PanicDevice,
            (0, Some(host)) if host.starts_with("host-") => GuestExit::Quit,
            (0, _) => GuestExit::PoweredOff,
            (status, _) => GuestExit::QemuFailed { status, said },
        }
    }
}

impl fmt::Display for GuestExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuestExit::Code(0) => write!(f, "the guest exited with code 0 (all well)"),
            GuestExit::Code(1) => write!(f, "the guest exited with code 1 (failed)"),
            GuestExit::Code(2) => write!(f, "the guest exited with code 2 (panicked)"),
            GuestExit::Code(code) => write!(f, "the guest exited with code {code}"),
            GuestExit::PoweredOff => write!(f, "the guest powered off without an exit code"),
            GuestExit::Reset => write!(
                f,
                "the guest reset the machine (a triple fault, or on purpose)"
            ),
            GuestExit::PanicDevice => write!(f, "the guest reported a panic to QEMU"),
            GuestExit::Quit => write!(f, "QEMU was told to quit"),
            GuestExit::QemuFailed { status, said } => {
                write!(f, "QEMU ended with status {status}{}", Said(said))
            }
            GuestExit::QemuKilled { signal, said } => {
                write!(f, "QEMU was killed by signal {signal}{}", Said(said))
            }
        }
    }
}

/// What QEMU said, folded into one line.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(
            f,
            ": {}",
            self.0.lines().map(str::trim).collect::<Vec<_>>().join("; ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exited(arch: Arch, status: i32, reason: Option<&str>) -> GuestExit {
        GuestExit::classify(
            arch,
            ExitStatus::from_raw(status << 8),
            reason,
            " bad option\n",
        )
    }

    #[test]
    fn codes_arrive_through_the_debug_port_and_through_semihosting() {
        for code in 0..=2 {
            assert_eq!(
                exited(Arch::X86_64, 0x21 + 2 * code, None),
                GuestExit::Code(code as u8)
            );
            assert_eq!(
                exited(Arch::Aarch64, 0x10 + code, None),
                GuestExit::Code(code as u8)
            );
        }
    }

    #[test]
    fn a_reset_and_a_power_off_are_told_apart_by_their_reason() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert_eq!(exited(arch, 0, Some("guest-reset")), GuestExit::Reset);
            assert_eq!(
                exited(arch, 0, Some("guest-shutdown")),
                GuestExit::PoweredOff
            );
            assert_eq!(exited(arch, 0, Some("host-qmp-quit")), GuestExit::Quit);
            assert_eq!(exited(arch, 0, None), GuestExit::PoweredOff);
        }
    }

    #[test]
    fn qemus_own_errors_carry_what_it_said() {
        let exit = exited(Arch::X86_64, 1, None);
        assert_eq!(
            exit,
            GuestExit::QemuFailed {
                status: 1,
                said: "bad option".into()
            }
        );
        assert_eq!(exit.to_string(), "QEMU ended with status 1: bad option");
    }

    #[test]
    fn a_signal_is_named() {
        let exit = GuestExit::classify(Arch::Aarch64, ExitStatus::from_raw(11), None, "");
        assert_eq!(exit.to_string(), "QEMU was killed by signal 11");
    }
}
