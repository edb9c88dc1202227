//! Packs small ELF files that are made by hand, and reads back what came out.

use super::*;
use object::elf::Machine;

const BASE: u64 = 0xffff_8000_0000_0000;

/// Grows an ELF64 with three segments: text at BASE, data and bss at BASE + 0x1000,
/// and the symbols' header at BASE + 0x3000.
struct Handmade {
    machine: Machine,
    magic: u64,
    /// Name, offset from BASE, global?
    functions: Vec<(&'static str, u64, bool)>,
    /// Address of the segment for symbols.
    symbols_at: u64,
}

fn kernel(machine: Machine) -> Handmade {
    let functions = vec![
        ("_ZN6kernel4main17h0123456789abcdefE", 0x80, true),
        ("_RNvCs1234_7mycrate3foo", 0x40, false),
        ("alias_of_main", 0x80, false),
    ];
    Handmade {
        machine,
        magic: MAGIC,
        functions,
        symbols_at: BASE + 0x3000,
    }
}

impl Handmade {
    fn bytes(&self) -> Vec<u8> {
        let (text_at, data_at, symbols_at) = (0x1000usize, 0x2000usize, 0x2100usize);
        let mut file = vec![0u8; symbols_at + HEADER];
        file[text_at..text_at + 0x100].fill(0x90);
        file[text_at + 56..text_at + 60].copy_from_slice(IMAGE_MAGIC);
        file[data_at..data_at + 0x10].fill(0xda);
        put(&mut file, symbols_at, self.magic);
        file[symbols_at + 8] = HEADER as u8;

        let mut strings = vec![0u8];
        let mut symtab = vec![0u8; 24];
        let mut symbol = |name: &str, value: u64, info: u8, section: u16| {
            symtab.extend((strings.len() as u32).to_le_bytes());
            symtab.extend([info, 0]);
            symtab.extend(section.to_le_bytes());
            symtab.extend(value.to_le_bytes());
            symtab.extend(0x20u64.to_le_bytes());
            strings.extend(name.as_bytes());
            strings.push(0);
        };
        for (name, offset, global) in &self.functions {
            symbol(name, BASE + offset, if *global { 0x12 } else { 0x02 }, 1);
        }
        symbol("A_VARIABLE", BASE + 0x1000, 0x11, 2);
        symbol("a_function_in_data", BASE + 0x1008, 0x12, 2);
        symbol("__image_start", BASE, 0x10, 1);

        let names = b"\0.text\0.data\0.symbols\0.symtab\0.strtab\0.shstrtab\0";
        let symtab_at = append(&mut file, &symtab);
        let strings_at = append(&mut file, &strings);
        let names_at = append(&mut file, names);
        let sections_at = file.len() as u64;
        let mut section =
            |name: u32, kind: u32, flags: u64, address: u64, at: u64, size: u64, link: u32| {
                file.extend(name.to_le_bytes());
                file.extend(kind.to_le_bytes());
                for word in [flags, address, at, size] {
                    file.extend(word.to_le_bytes());
                }
                file.extend(link.to_le_bytes());
                file.extend(1u32.to_le_bytes());
                file.extend(1u64.to_le_bytes());
                file.extend(if kind == 2 { 24u64 } else { 0 }.to_le_bytes());
            };
        section(0, 0, 0, 0, 0, 0, 0);
        section(1, 1, 6, BASE, text_at as u64, 0x100, 0);
        section(7, 1, 3, BASE + 0x1000, data_at as u64, 0x10, 0);
        section(
            13,
            1,
            2,
            self.symbols_at,
            symbols_at as u64,
            HEADER as u64,
            0,
        );
        section(22, 2, 0, 0, symtab_at, symtab.len() as u64, 5);
        section(30, 3, 0, 0, strings_at, strings.len() as u64, 0);
        section(38, 3, 0, 0, names_at, names.len() as u64, 0);

        file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
        let mut header = Vec::new();
        header.extend(2u16.to_le_bytes());
        header.extend(self.machine.0.to_le_bytes());
        header.extend(1u32.to_le_bytes());
        for word in [BASE, 64, sections_at] {
            header.extend(word.to_le_bytes());
        }
        header.extend(0u32.to_le_bytes());
        for half in [64u16, 56, 3, 64, 7, 6] {
            header.extend(half.to_le_bytes());
        }
        for (address, at, in_file, in_memory) in [
            (BASE, text_at, 0x100, 0x100),
            (BASE + 0x1000, data_at, 0x10, 0x1800),
            (self.symbols_at, symbols_at, HEADER, HEADER),
        ] {
            header.extend(1u32.to_le_bytes());
            header.extend(4u32.to_le_bytes());
            header.extend((at as u64).to_le_bytes());
            header.extend(address.to_le_bytes());
            header.extend((address - BASE).to_le_bytes());
            for word in [in_file, in_memory, 0x1000] {
                header.extend((word as u64).to_le_bytes());
            }
        }
        file[16..16 + header.len()].copy_from_slice(&header);
        file
    }

    fn problem(&self) -> String {
        convert(&self.bytes()).unwrap_err().to_string()
    }
}

fn append(file: &mut Vec<u8>, bytes: &[u8]) -> u64 {
    let at = file.len() as u64;
    file.extend(bytes);
    at
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Reads a table as the kernel does.
fn read_table(table: &[u8]) -> Vec<(u32, String)> {
    assert_eq!(table[..8], MAGIC.to_le_bytes());
    assert_eq!(word(table, 8) as usize, table.len());
    let name_at = |at: usize| {
        let length = usize::from(u16::from_le_bytes([table[at], table[at + 1]]));
        String::from_utf8(table[at + 2..at + 2 + length].to_vec()).unwrap()
    };
    let pairs = (0..word(table, 12) as usize).map(|i| HEADER + 8 * i);
    pairs
        .map(|at| (word(table, at), name_at(word(table, at + 4) as usize)))
        .collect()
}

fn expected() -> Vec<(u32, String)> {
    vec![(0x40, "mycrate::foo".into()), (0x80, "kernel::main".into())]
}

#[test]
fn an_x86_kernel_stays_an_elf_with_its_symbols_at_the_end_of_the_file() {
    let before = kernel(EM_X86_64).bytes();
    let after = convert(&before).unwrap();
    let elf = symbols::parse(&after).unwrap();
    let segment = &elf.elf_program_headers()[2];
    let offset = segment.p_offset(LittleEndian);
    assert_eq!(offset % 0x1000, segment.p_vaddr(LittleEndian) % 0x1000);
    assert!(offset >= before.len() as u64);
    let table = segment.data(LittleEndian, after.as_slice()).unwrap();
    assert_eq!(read_table(table), expected());
    assert_eq!(segment.p_memsz(LittleEndian), table.len() as u64);
    assert_eq!(offset as usize + table.len(), after.len());
    let (_, section) = elf
        .elf_section_table()
        .section_by_name(LittleEndian, b".symbols")
        .unwrap();
    assert_eq!(section.data(LittleEndian, after.as_slice()).unwrap(), table);
    let text = elf.elf_program_headers()[0]
        .data(LittleEndian, after.as_slice())
        .unwrap();
    assert_eq!(
        text,
        &before[0x1000..0x1100],
        "other segments stay as they were"
    );
}

#[test]
fn an_aarch64_kernel_becomes_a_flat_file_that_knows_its_size() {
    let flat = convert(&kernel(EM_AARCH64).bytes()).unwrap();
    assert_eq!(flat[16..24], (flat.len() as u64).to_le_bytes());
    assert_eq!(flat[0], 0x90);
    assert_eq!(flat[0x1000..0x1010], [0xda; 0x10]);
    assert!(
        flat[0x1010..0x3000].iter().all(|byte| *byte == 0),
        "bss and gaps are zeros"
    );
    assert_eq!(read_table(&flat[0x3000..]), expected());
}

#[test]
fn packing_twice_gives_the_same_bytes() {
    for machine in [EM_X86_64, EM_AARCH64] {
        let bytes = kernel(machine).bytes();
        assert_eq!(convert(&bytes).unwrap(), convert(&bytes).unwrap());
    }
}

#[test]
fn what_cannot_be_packed_is_told_in_one_line() {
    let said = |problem: String, words: &str| assert!(problem.contains(words), "{problem}");
    said(
        Handmade {
            magic: 1,
            ..kernel(EM_X86_64)
        }
        .problem(),
        "magic number",
    );
    said(
        Handmade {
            symbols_at: BASE + 0x800,
            ..kernel(EM_X86_64)
        }
        .problem(),
        "not the last",
    );
    said(
        Handmade {
            symbols_at: BASE + 0x2000,
            ..kernel(EM_AARCH64)
        }
        .problem(),
        "reaches into `.symbols`",
    );
    said(
        Handmade {
            symbols_at: BASE + (1 << 40),
            ..kernel(EM_AARCH64)
        }
        .problem(),
        "flat image",
    );
    said(
        kernel(object::elf::EM_RISCV).problem(),
        "knows x86_64 and aarch64",
    );
    said(
        convert(b"MZ not an elf at all").unwrap_err().to_string(),
        "not a 64-bit ELF",
    );
    let truncated = &kernel(EM_X86_64).bytes()[..0x1800];
    assert!(convert(truncated).is_err());
}

#[test]
fn a_function_below_the_link_base_is_refused() {
    let functions = [Function {
        start: 0x1000,
        size: 1,
        name: "low".into(),
    }];
    let problem = table(&functions, BASE).unwrap_err().to_string();
    assert!(problem.contains("`low` at 0x1000"), "{problem}");
}

#[test]
fn pack_leaves_the_unpacked_elf_beside_the_image() {
    let folder = std::env::temp_dir().join(format!("spindle-pack-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (input, output) = (folder.join("in"), folder.join("out/spindle"));
    let bytes = kernel(EM_X86_64).bytes();
    std::fs::write(&input, &bytes).unwrap();
    pack(&input, &output).unwrap();
    assert_eq!(
        std::fs::read(folder.join("out/spindle.elf")).unwrap(),
        bytes
    );
    assert!(std::fs::read(&output).unwrap().len() > bytes.len());
    let gone = pack(&folder.join("missing"), &output)
        .unwrap_err()
        .to_string();
    assert!(gone.contains("missing"), "{gone}");
    std::fs::remove_dir_all(&folder).unwrap();
}
