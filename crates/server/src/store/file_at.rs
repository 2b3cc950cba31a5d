//! Reading and writing a file at an offset, under the names that Unix has for it.

#[cfg(unix)]
pub(super) use std::os::unix::fs::FileExt;

#[cfg(windows)]
pub(super) use windows::FileExt;

#[cfg(windows)]
mod windows {
    use std::fs::File;
    use std::io::{self, ErrorKind};
    use std::os::windows::fs::FileExt as _;

    /// The same as Unix's. The place of the file's cursor, which nobody uses, moves.
    pub(in super::super) trait FileExt {
        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
        fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    }

    impl FileExt for File {
        fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
            self.seek_read(bytes, offset)
        }

        fn read_exact_at(&self, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
            while !bytes.is_empty() {
                match self.seek_read(bytes, offset) {
                    Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof)),
                    Ok(count) => {
                        bytes = &mut bytes[count..];
                        offset += count as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }

        fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
            while !bytes.is_empty() {
                match self.seek_write(bytes, offset) {
                    Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero)),
                    Ok(count) => {
                        bytes = &bytes[count..];
                        offset += count as u64;
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
    }
}
