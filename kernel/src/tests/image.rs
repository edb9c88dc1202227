//! Command line, symbols, the boot's own report.

use crate::symbols;
use boot::Firmware;
use hal::backtrace;
use testing::kernel_test;

#[kernel_test]
fn a_backtrace_names_the_functions_it_goes_through() {
    #[inline(never)]
    fn inner_function(found: &mut [bool; 2]) {
        let (program_counter, frame_pointer) = backtrace::here();
        backtrace::walk(program_counter, frame_pointer, |address| {
            let (name, _) = symbols::lookup(address).expect("every frame is in the image");
            found[0] |= name.contains("inner_function");
            found[1] |= name.contains("outer_function");
        });
        core::hint::black_box(found);
    }
    #[inline(never)]
    fn outer_function(found: &mut [bool; 2]) {
        inner_function(found);
        core::hint::black_box(found);
    }
    let mut found = [false; 2];
    outer_function(&mut found);
    assert_eq!(found, [true; 2]);
}

#[kernel_test]
fn the_symbol_table_is_there_and_knows_its_limits() {
    assert!(symbols::count() > 200, "only {} names", symbols::count());
    assert_eq!(symbols::lookup(0), None);
    assert_eq!(symbols::lookup(usize::MAX), None);
    let (name, offset) =
        symbols::lookup(symbols::lookup as *const () as usize + 4).expect("it is code");
    assert!(name.contains("symbols::lookup"), "{name}");
    assert_eq!(offset, 4);
}

#[kernel_test]
fn a_damaged_stack_does_not_stop_a_backtrace() {
    let mut shown = 0;
    backtrace::walk(0x1234, 0xdead_beef_0000, |_| shown += 1);
    backtrace::walk(0x1234, 7, |_| shown += 1);
    // A frame that is its own caller.
    let mut ring = [0u64, 0x1234];
    ring[0] = ring.as_ptr() as u64;
    backtrace::walk(0x1234, ring.as_ptr() as usize, |_| shown += 1);
    assert_eq!(shown, 4);
}

#[kernel_test]
fn what_the_firmware_left_can_be_looked_into() {
    let info = crate::boot_info();
    match (info.firmware, info.device_tree()) {
        (Firmware::DeviceTree(_, length), Some(tree)) => {
            assert_eq!(tree.len(), length);
            let header = tree[..8].try_into().expect("it has a header");
            assert_eq!(boot::devicetree::length(header), Some(length));
        }
        (Firmware::Acpi(pointer), None) => assert_ne!(pointer, 0),
        (Firmware::Nothing, None) => {}
        (firmware, tree) => panic!("{firmware:?}, but a tree: {}", tree.is_some()),
    }
}

#[kernel_test]
fn no_core_and_no_memory_is_counted_twice() {
    let info = crate::boot_info();
    let ids = info.cores.ids();
    for (i, id) in ids.iter().enumerate() {
        assert!(!ids[..i].contains(id), "core {id:#x} is listed twice");
    }
    for pair in info.memory.regions().windows(2) {
        assert!(pair[0].end <= pair[1].start, "{pair:x?} overlap");
    }
    assert!(info.memory.usable_bytes() > 64 << 20);
}
