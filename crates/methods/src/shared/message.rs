//! Numbers as bytes for another process: every bit comes back.

use crate::error::{Error, Result};

/// What a message is that ends too early or too late.
pub fn cut() -> Error {
    Error::State(
        "a message of another process is not whole: do all run the same version of this program?".into(),
    )
}

/// Writes numbers.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// The bytes.
    pub fn done(self) -> Vec<u8> {
        self.0
    }

    /// A count.
    pub fn length(&mut self, length: usize) {
        self.0.extend((length as u64).to_le_bytes());
    }

    /// Bytes with their count.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend(bytes);
    }

    /// Numbers with their count.
    pub fn f64s(&mut self, values: &[f64]) {
        self.length(values.len());
        values.iter().for_each(|x| self.0.extend(x.to_le_bytes()));
    }

    /// Numbers with their count.
    pub fn f32s(&mut self, values: &[f32]) {
        self.length(values.len());
        values.iter().for_each(|x| self.0.extend(x.to_le_bytes()));
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the beginning.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Whether everything is read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let (own, rest) = self.0.split_at_checked(bytes).ok_or_else(cut)?;
        self.0 = rest;
        Ok(own)
    }

    /// A count.
    pub fn length(&mut self) -> Result<usize> {
        let bytes = self.take(8)?.try_into().map_err(|_| cut())?;
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| cut())
    }

    /// Bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    /// Numbers.
    pub fn f64s(&mut self) -> Result<Vec<f64>> {
        let bytes = self.length()?.checked_mul(8).ok_or_else(cut)?;
        let values = self.take(bytes)?.as_chunks::<8>().0;
        Ok(values.iter().map(|x| f64::from_le_bytes(*x)).collect())
    }

    /// Numbers.
    pub fn f32s(&mut self) -> Result<Vec<f32>> {
        let bytes = self.length()?.checked_mul(4).ok_or_else(cut)?;
        let values = self.take(bytes)?.as_chunks::<4>().0;
        Ok(values.iter().map(|x| f32::from_le_bytes(*x)).collect())
    }
}
