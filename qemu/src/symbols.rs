//! The functions of a kernel ELF: [`Symbols`] names the function that an address is in.
//! `pack` embeds the same list in the image, so guest and host tell the same names.

use crate::board::Board;
use crate::files;
use crate::problem::{Problem, Result, stop};
use object::elf::{FileHeader64, PT_LOAD, SHF_EXECINSTR, STT_FUNC};
use object::read::elf::{ElfFile64, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSymbol};
use std::path::Path;

/// A function: where it starts, how long it is (0: not known) and what it is called, without hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    pub start: u64,
    pub size: u64,
    pub name: String,
}

/// A kernel ELF, little-endian as both of our instruction sets are.
pub type Elf<'data> = ElfFile64<'data, LittleEndian>;

/// Reads an ELF file that is in memory.
pub fn parse(bytes: &[u8]) -> Result<Elf<'_>> {
    match object::FileKind::parse(bytes) {
        Ok(object::FileKind::Elf64) => {}
        _ => stop!("not a 64-bit ELF file"),
    }
    Elf::parse(bytes).map_err(|error| Problem::new(format!("not a usable ELF file: {error}")))
}

/// All functions in executable sections by address, one for each address.
pub fn functions(elf: &Elf<'_>) -> Result<Vec<Function>> {
    let endian = LittleEndian;
    let sections = elf.elf_section_table();
    let mut found: Vec<(Function, bool)> = Vec::new();
    for symbol in elf.symbols() {
        if symbol.elf_symbol().st_type() != STT_FUNC {
            continue;
        }
        let Some(index) = symbol.section_index() else {
            continue;
        };
        let section: &<FileHeader64<LittleEndian> as object::read::elf::FileHeader>::SectionHeader =
            sections
                .section(index)
                .map_err(|error| Problem::new(format!("bad symbol table: {error}")))?;
        if !section.sh_flags(endian).contains(SHF_EXECINSTR) {
            continue;
        }
        let mangled = symbol
            .name()
            .map_err(|error| Problem::new(format!("bad symbol name: {error}")))?;
        let name = format!("{:#}", rustc_demangle::demangle(mangled));
        if !name.is_empty() {
            let function = Function {
                start: symbol.address(),
                size: symbol.size(),
                name,
            };
            found.push((function, symbol.is_global()));
        }
    }
    // Several names for one address: a global one tells most, then the shortest, then by alphabet
    // so that the same ELF always packs to the same image.
    found.sort_by(|(a, a_global), (b, b_global)| {
        let order = a.start.cmp(&b.start).then(b_global.cmp(a_global));
        order
            .then(a.name.len().cmp(&b.name.len()))
            .then_with(|| a.name.cmp(&b.name))
    });
    let mut functions: Vec<Function> = found.into_iter().map(|(function, _)| function).collect();
    functions.dedup_by_key(|function| function.start);
    Ok(functions)
}

/// How many bytes of an ELF file are loaded: code, constants and data, not what is zeroed.
pub fn loaded_bytes(bytes: &[u8]) -> Result<u64> {
    let elf = parse(bytes)?;
    let segments = elf.elf_program_headers().iter();
    let loads = segments.filter(|segment| segment.p_type(LittleEndian) == PT_LOAD);
    Ok(loads.map(|segment| segment.p_filesz(LittleEndian)).sum())
}

/// The address of the symbol called `name`.
pub fn address_of(elf: &Elf<'_>, name: &str) -> Option<u64> {
    elf.symbols()
        .find(|symbol| symbol.name() == Ok(name))
        .map(|symbol| symbol.address())
}

/// Names addresses. Empty when the image has no ELF beside it: then every address is unknown.
#[derive(Default)]
pub struct Symbols {
    functions: Vec<Function>,
    /// Link address and load address of the image's first byte.
    bases: Option<(u64, u64)>,
}

impl Symbols {
    /// The symbols of the packed `image`, from the ELF that `pack` left beside it.
    pub fn of_image(image: &Path, board: Board) -> Symbols {
        let read = || -> Result<Symbols> {
            let bytes = files::read(&files::with_suffix(image, ".elf"))?;
            let elf = parse(&bytes)?;
            let link = address_of(&elf, "__image_start");
            Ok(Symbols {
                functions: functions(&elf)?,
                bases: link.map(|link| (link, board.load_address())),
            })
        };
        read().unwrap_or_default()
    }

    /// `name+0xoffset` of the function that holds `address`, which is a link address or,
    /// before the MMU is on, a load address.
    pub fn name(&self, address: u64) -> Option<String> {
        self.find(address).or_else(|| {
            let (link, load) = self.bases?;
            self.find(address.checked_sub(load)?.checked_add(link)?)
        })
    }

    fn find(&self, address: u64) -> Option<String> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        let offset = address - function.start;
        // Labels from assembly have no size; they reach to the next function, but not for ever.
        let reach = match (function.size, self.functions.get(after)) {
            (0, Some(next)) => next.start - function.start,
            (0, None) => 0x1000,
            (size, _) => size,
        };
        (offset < reach).then(|| format!("{}+{offset:#x}", function.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(start: u64, size: u64, name: &str) -> Function {
        Function {
            start,
            size,
            name: name.into(),
        }
    }

    #[test]
    fn an_address_is_named_by_the_function_that_holds_it() {
        let functions = vec![
            function(0x1000, 0x10, "a"),
            function(0x1020, 0, "label"),
            function(0x1040, 8, "b"),
        ];
        let symbols = Symbols {
            functions,
            bases: None,
        };
        assert_eq!(symbols.name(0x1000).as_deref(), Some("a+0x0"));
        assert_eq!(symbols.name(0x100f).as_deref(), Some("a+0xf"));
        assert_eq!(symbols.name(0x1010), None, "between two functions");
        assert_eq!(symbols.name(0x103f).as_deref(), Some("label+0x1f"));
        assert_eq!(symbols.name(0x1048), None);
        assert_eq!(symbols.name(0), None);
    }

    #[test]
    fn a_load_address_is_named_like_its_link_address() {
        let functions = vec![function(0xffff_0000_0008_0100, 0x10, "early")];
        let symbols = Symbols {
            functions,
            bases: Some((0xffff_0000_0008_0000, 0x4008_0000)),
        };
        assert_eq!(symbols.name(0x4008_0104).as_deref(), Some("early+0x4"));
        assert_eq!(symbols.name(0x104), None);
    }
}
