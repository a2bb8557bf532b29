//! The frames of zstd (RFC 8878).

use std::io::{self, BufRead, ErrorKind, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How much of what came before a frame may refer to, in bytes, and so how much memory one takes. Engines
/// that pack layers use 8 MiB at most, `zstd` too below `--ultra` and `--long`.
const WINDOW: u64 = 64 << 20;

/// The content of all frames, one after another. Those that are to be skipped are (zstd:chunked ends with
/// some).
pub(super) struct Frames<R> {
    source: R,
    decoder: FrameDecoder,
    /// A frame has begun, and not all of it was given away.
    is_open: bool,
}

impl<R: BufRead> Frames<R> {
    pub(super) fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
        Self { source, decoder, is_open: false }
    }

    /// Begins the next frame; `false` where there is none.
    fn next(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => self.skip(length.into())?,
                Err(error) => return Err(refused(error)),
            }
        }
    }

    fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut (&mut self.source).take(length), &mut io::sink())?;
        if skipped == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Compares the sum of a frame that was given away, where it has one.
    fn close(&mut self) -> io::Result<()> {
        self.is_open = false;
        match self.decoder.get_checksum_from_data() {
            Some(sum) if self.decoder.get_calculated_checksum() != Some(sum) => {
                Err(io::Error::new(ErrorKind::InvalidData, "the sum of a frame of zstd is wrong"))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !buffer.is_empty() {
            if !self.is_open {
                self.is_open = self.next()?;
                if !self.is_open {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(refused)?;
            }
            match self.decoder.read(buffer)? {
                0 => self.close()?,
                count => return Ok(count),
            }
        }
        Ok(0)
    }
}

fn refused(error: FrameDecoderError) -> io::Error {
    let why = match error {
        FrameDecoderError::WindowSizeTooBig { requested, max } => format!(
            "unpacking it takes {requested} bytes of memory, and {max} is the most: pack it without --ultra \
             and --long"
        ),
        FrameDecoderError::DictNotProvided { .. } => {
            "it was packed with a dictionary, which no image brings along".to_owned()
        }
        error => format!("it is no stream of zstd, or damaged: {error}"),
    };
    io::Error::new(ErrorKind::InvalidData, why)
}
