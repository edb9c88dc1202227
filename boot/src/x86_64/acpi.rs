//! What ACPI says: cores, APICs, the timer port, how to switch off.

use crate::{CoreList, space};
use acpi::{
    AcpiHandler, AcpiTables, PhysicalMapping,
    fadt::Fadt,
    madt::{Madt, MadtEntry},
};
use core::ptr::NonNull;
use hal::{
    board::{Board, Interrupts, Platform, Power, Uart},
    irq::Line,
};

#[derive(Clone, Copy)]
struct Mapper;

impl AcpiHandler for Mapper {
    unsafe fn map_physical_region<T>(
        &self,
        physical: usize,
        size: usize,
    ) -> PhysicalMapping<Self, T> {
        let at = space::map_firmware(physical as u64, size).expect("there is room for page tables");
        let at = NonNull::new(at as *mut T).expect("the direct map is not at 0");
        // SAFETY: `size` bytes at `at` were just made readable, and stay so.
        unsafe { PhysicalMapping::new(physical, at, size, size, *self) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}

/// The ISA line of the first serial port.
const COM1: u8 = 4;

/// Reads the tables at `rsdp` and lists the cores, the running one first.
pub fn read(rsdp: u64, cores: &mut CoreList) -> Platform {
    // SAFETY: the loader says that the root pointer is there; tables are checksummed by the crate.
    let tables = unsafe {
        match rsdp {
            0 => AcpiTables::search_for_rsdp_bios(Mapper),
            at => AcpiTables::from_rsdp(Mapper, at as usize),
        }
    }
    .expect("a PC has ACPI tables");
    let madt = tables
        .find_table::<Madt>()
        .expect("a PC's ACPI lists its cores");
    let madt = madt.get();
    let running = core::arch::x86_64::__cpuid(1).ebx >> 24;
    cores.add(u64::from(running));
    let mut local = u64::from(madt.local_apic_address);
    let mut io = 0;
    let mut serial = u32::from(COM1);
    for entry in madt.entries() {
        match entry {
            // Enabled, or can be.
            MadtEntry::LocalApic(core) if core.flags & 3 != 0 => cores.add(u64::from(core.apic_id)),
            MadtEntry::LocalX2Apic(core) if core.flags & 3 != 0 => match core.x2apic_id {
                id @ 0..255 => cores.add(u64::from(id)),
                _ => cores.left_out += 1,
            },
            MadtEntry::IoApic(apic) if apic.global_system_interrupt_base == 0 => {
                io = u64::from(apic.io_apic_address);
            }
            MadtEntry::InterruptSourceOverride(line) if line.irq == COM1 => {
                serial = line.global_system_interrupt;
            }
            MadtEntry::LocalApicAddressOverride(address) => local = address.local_apic_address,
            _ => {}
        }
    }
    let fadt = tables
        .find_table::<Fadt>()
        .expect("a PC's ACPI describes its fixed hardware");
    let fadt = fadt.get();
    let pm_timer = match fadt.pm_timer_block() {
        Ok(Some(block)) => block.address as u16,
        _ => panic!("this PC has no ACPI timer to measure its clocks by"),
    };
    let control = fadt
        .pm1a_control_block()
        .map_or(0, |block| block.address as u16);
    let sleep_type = fadt.dsdt_address().ok().and_then(|at| soft_off(at as u64));
    Platform {
        board: Board::Pc,
        interrupts: Interrupts::Apic {
            local,
            io,
            pm_timer,
        },
        uart: Uart::Ns16550 {
            port: 0x3f8,
            line: Line(serial),
        },
        power: Power::Acpi {
            control: if sleep_type.is_some() { control } else { 0 },
            sleep_type: sleep_type.unwrap_or(0),
        },
        takes_status: false,
    }
}

/// The value that means "soft off": the first number in the package `_S5_` of
/// the table at `dsdt`. The table is byte code; this object is a constant in
/// every firmware, and is found without running any.
fn soft_off(dsdt: u64) -> Option<u16> {
    let bytes = |length| {
        let at = space::map_firmware(dsdt, length).ok()?;
        // SAFETY: `length` bytes were just made readable, and stay so.
        Some(unsafe { core::slice::from_raw_parts(at as *const u8, length) })
    };
    let length = u32::from_le_bytes(bytes(36)?[4..8].try_into().ok()?) as usize;
    let table = bytes(length)?;
    let name = table.windows(5).position(|window| window == b"_S5_\x12")?;
    // Length of the package (1 to 4 bytes, told by its first), number of elements, first element.
    let package = name + 5;
    let skip = 1 + usize::from(*table.get(package)? >> 6);
    match table.get(package + skip + 1..package + skip + 3)? {
        [0x0a, value] => Some(u16::from(*value)),
        [value @ 0..=1, _] => Some(u16::from(*value)),
        _ => None,
    }
}
