//! What a relay and its worker say to each other: a kind, a length and bytes.

use std::io::{Error, ErrorKind, Read, Result, Write};

/// Kinds of frames. The worker sends only parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The rank and how many there are; the first frame.
    Place,
    /// What one rank has for all others. The relay answers with those of all ranks, in their order.
    Part,
    /// Why there are no parts.
    Failure,
    /// The number of a signal.
    Signal,
}

const KINDS: [Kind; 4] = [Kind::Place, Kind::Part, Kind::Failure, Kind::Signal];

pub(super) fn write(to: &mut impl Write, kind: Kind, bytes: &[u8]) -> Result<()> {
    to.write_all(&[kind as u8])?;
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)
}

/// The next frame; an error where the other side is gone.
pub(super) fn read(from: &mut impl Read) -> Result<(Kind, Vec<u8>)> {
    let (mut kind, mut length) = ([0], [0; 8]);
    from.read_exact(&mut kind)?;
    from.read_exact(&mut length)?;
    let kind = *KINDS.get(usize::from(kind[0])).ok_or_else(|| Error::from(ErrorKind::InvalidData))?;
    let mut bytes = Vec::new();
    let length = u64::from_le_bytes(length);
    match from.take(length).read_to_end(&mut bytes)? as u64 == length {
        true => Ok((kind, bytes)),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// The rank and how many there are, as a relay says it first of all. Signals may come before, while MPI begins: `signal` is called
/// with each.
pub(super) fn place(from: &mut impl Read, mut signal: impl FnMut(u8)) -> Result<(usize, usize)> {
    loop {
        match read(from)? {
            (Kind::Place, place) if place.len() == 16 => {
                let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
                return Ok((number(&place[..8]), number(&place[8..])));
            }
            (Kind::Signal, number) => number.iter().for_each(|number| signal(*number)),
            _ => return Err(ErrorKind::InvalidData.into()),
        }
    }
}

/// The bytes of a frame of kind [`Kind::Place`].
pub(super) fn place_bytes(rank: usize, size: usize) -> Vec<u8> {
    [rank as u64, size as u64].map(u64::to_le_bytes).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_may_come_before_the_place() {
        let mut line = Vec::new();
        write(&mut line, Kind::Signal, &[15]).unwrap();
        write(&mut line, Kind::Place, &place_bytes(2, 700)).unwrap();
        let mut heard = Vec::new();
        assert_eq!(place(&mut &line[..], |signal| heard.push(signal)).unwrap(), (2, 700));
        assert_eq!(heard, [15]);
        let mut line = Vec::new();
        write(&mut line, Kind::Part, &place_bytes(2, 700)).unwrap();
        assert_eq!(place(&mut &line[..], |_| {}).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(place(&mut &line[..3], |_| {}).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn frames_are_read_as_written_and_half_ones_are_errors() {
        let mut line = Vec::new();
        for kind in KINDS {
            write(&mut line, kind, &[kind as u8; 3][..kind as usize]).unwrap();
        }
        let mut from = &line[..];
        for kind in KINDS {
            assert_eq!(read(&mut from).unwrap(), (kind, vec![kind as u8; kind as usize]));
        }
        assert_eq!(read(&mut from).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(read(&mut &line[..line.len() - 1][9..]).unwrap().0, Kind::Part);
        assert_eq!(
            read(&mut &line[line.len() - 12..line.len() - 1]).unwrap_err().kind(),
            ErrorKind::UnexpectedEof
        );
    }
}
