//! What an ELF file says of the system that it is made for.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use object::elf::{DT_NEEDED, DT_NULL, ET_DYN, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{Dyn as _, FileHeader as _, SectionTable};
use object::{LittleEndian, ReadRef};

type Header = FileHeader64<LittleEndian>;

/// ELF's number for the processor that corprof is built for.
const OUR_MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// A C library that a file needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Libc {
    /// glibc of this version (major, minor) at least.
    Glibc(u32, u32),
    /// musl, as in Alpine.
    Musl,
    /// None, or none that is known.
    None,
}

/// A program or a shared library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Library {
    /// ELF's number for its processor.
    pub machine: u16,
    /// Whether it can be loaded into a process.
    pub is_shared: bool,
    /// The C library that it needs.
    pub needs: Libc,
    /// The newest version of glibc's interface that it offers, if it is glibc.
    pub offers: Option<(u32, u32)>,
}

/// Why a file is no library of this kind of system.
#[derive(Debug)]
pub enum NotALibrary {
    /// It can't be read.
    Unreadable(io::Error),
    /// It has no ELF header for 64 bits, or is damaged.
    NotElf,
}

impl fmt::Display for NotALibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "it can't be read: {error}"),
            Self::NotElf => f.write_str("it is not a library of Linux with 64 bits"),
        }
    }
}

impl Library {
    /// Looks at a file; reads only the parts that matter.
    ///
    /// # Errors
    /// If it can't be read or is none.
    pub fn read(path: &Path) -> Result<Self, NotALibrary> {
        let cache = ReadCache::new(open(path).map_err(NotALibrary::Unreadable)?);
        Self::parse(&cache).map_err(|_| NotALibrary::NotElf)
    }

    fn parse<'data>(data: impl ReadRef<'data>) -> object::Result<Self> {
        let header = Header::parse(data)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, data)?;
        let needed = versions_needed(&sections, endian, data)?;
        let offered = versions_offered(&sections, endian, data)?;
        let names = needed_libraries(&sections, endian, data)?;
        let is_musl = |name: &String| name.starts_with("libc.musl-") || name == "libc.so";
        let needs = match newest(&needed) {
            Some((major, minor)) => Libc::Glibc(major, minor),
            None if names.iter().any(is_musl) => Libc::Musl,
            None => Libc::None,
        };
        Ok(Self {
            machine: header.e_machine(endian).0,
            is_shared: header.e_type.get(endian) == ET_DYN,
            needs,
            offers: newest(&offered),
        })
    }

    /// Whether it is made for the processor that corprof is built for.
    #[must_use]
    pub fn is_for_this_machine(&self) -> bool {
        self.machine == OUR_MACHINE
    }

    /// Whether it exports a symbol.
    ///
    /// # Errors
    /// If it can't be read or is none.
    pub fn exports(path: &Path, symbols: &[&str]) -> Result<Vec<bool>, NotALibrary> {
        let cache = ReadCache::new(open(path).map_err(NotALibrary::Unreadable)?);
        let names = exported(&cache, symbols).map_err(|_| NotALibrary::NotElf)?;
        Ok(names)
    }
}

/// Opens a regular file. Another user's process may have put a pipe in its place, whose opening
/// would wait for ever.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, nix::libc::O_NONBLOCK);
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}

fn exported<'data, R: ReadRef<'data>>(data: R, wanted: &[&str]) -> object::Result<Vec<bool>> {
    use object::read::elf::Sym as _;
    let header = Header::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let symbols = sections.symbols(endian, data, object::elf::SHT_DYNSYM)?;
    let mut found = vec![false; wanted.len()];
    for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(endian)) {
        let name = symbols.symbol_name(endian, symbol).unwrap_or_default();
        for (found, _) in found.iter_mut().zip(wanted).filter(|(_, other)| other.as_bytes() == name)
        {
            *found = true;
        }
    }
    Ok(found)
}

type Sections<'data, R> = SectionTable<'data, Header, R>;

fn versions_needed<'data, R: ReadRef<'data>>(
    sections: &Sections<'data, R>,
    endian: LittleEndian,
    data: R,
) -> object::Result<Vec<String>> {
    let mut names = Vec::new();
    let Some((mut needs, link)) = sections.gnu_verneed(endian, data)? else { return Ok(names) };
    let strings = sections.strings(endian, data, link)?;
    while let Some((_, mut versions)) = needs.next()? {
        while let Some(version) = versions.next()? {
            names.push(text(version.name(endian, strings)?));
        }
    }
    Ok(names)
}

fn versions_offered<'data, R: ReadRef<'data>>(
    sections: &Sections<'data, R>,
    endian: LittleEndian,
    data: R,
) -> object::Result<Vec<String>> {
    let mut names = Vec::new();
    let Some((mut offers, link)) = sections.gnu_verdef(endian, data)? else { return Ok(names) };
    let strings = sections.strings(endian, data, link)?;
    while let Some((_, mut versions)) = offers.next()? {
        while let Some(version) = versions.next()? {
            names.push(text(version.name(endian, strings)?));
        }
    }
    Ok(names)
}

fn needed_libraries<'data, R: ReadRef<'data>>(
    sections: &Sections<'data, R>,
    endian: LittleEndian,
    data: R,
) -> object::Result<Vec<String>> {
    let Some((entries, link)) = sections.dynamic(endian, data)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, data, link)?;
    let tag = |entry: &object::elf::Dyn64<LittleEndian>| entry.tag(endian);
    let entries = entries.iter().take_while(|entry| tag(entry) != DT_NULL);
    let needed = entries.filter(|entry| tag(entry) == DT_NEEDED);
    needed.map(|entry| Ok(text(entry.string(endian, strings)?))).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The newest version of glibc in names such as `GLIBC_2.34`.
fn newest(names: &[String]) -> Option<(u32, u32)> {
    let version = |name: &String| {
        let mut parts = name.strip_prefix("GLIBC_")?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    };
    names.iter().filter_map(version).max()
}

/// A processor's name, by ELF's number.
#[must_use]
pub fn machine_name(machine: u16) -> String {
    match machine {
        3 => "x86 (32 bit)".to_owned(),
        40 => "arm (32 bit)".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "arm64".to_owned(),
        243 => "RISC-V".to_owned(),
        other => format!("another processor (ELF machine {other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts_as_a_number() {
        let names = ["GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.9", "GLIBC_PRIVATE", "GCC_3.0"];
        assert_eq!(newest(&names.map(str::to_owned)), Some((2, 34)));
        assert_eq!(newest(&["GLIBC_PRIVATE".to_owned()]), None);
    }

    #[test]
    fn this_program_fits_this_machine() {
        let own = Library::read(Path::new("/proc/self/exe")).unwrap();
        assert!(own.is_for_this_machine());
        assert!(matches!(own.needs, Libc::Glibc(2, minor) if minor > 1), "{own:?}");
        assert_eq!(own.offers, None);
    }

    #[test]
    fn what_is_no_library_is_said() {
        let missing = Library::read(Path::new("/nowhere"));
        assert!(matches!(missing, Err(NotALibrary::Unreadable(_))));
        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(matches!(Library::read(&text), Err(NotALibrary::NotElf)));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_not_waited_at() {
        let pipe = std::env::temp_dir().join(format!("corprof-pipe-{}", std::process::id()));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).unwrap();
        for path in [pipe.as_path(), Path::new("/dev/zero"), Path::new("/")] {
            let read = Library::read(path);
            assert!(matches!(read, Err(NotALibrary::Unreadable(_))), "{path:?}");
            assert!(Library::exports(path, &[]).is_err(), "{path:?}");
        }
        std::fs::remove_file(pipe).unwrap();
    }
}
