//! What one episode gives to an optimiser step, so that several processes can share the episodes of a step.

use super::message::{Reader, Writer, cut};
use super::notice::Notice;
use crate::error::Result;
use crate::gp::deep_kernel::Residual;
use siskin_nn::{SentPart, Step, StepPart};

/// Which episodes of a step a process has: `first`, `first + 1`, ... of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The place of the first one in the step.
    pub first: usize,
    /// Episodes of the whole step.
    pub count: usize,
}

/// What one episode gives to a step. It depends on the model before the step and on the episode alone.
#[derive(Debug, Clone)]
pub struct Share {
    /// The loss.
    pub loss: f64,
    /// The share of queries that the support alone predicts rightly, where the loss gives it without further work.
    pub accuracy: Option<f64>,
    /// How far from rest its inference ended.
    pub residual: Option<Residual>,
    /// What it showed about the model.
    pub notice: Option<Notice>,
    /// Gradient and batch statistics of each network of the method.
    pub parts: Vec<StepPart>,
    /// The gradient of the numbers that the method learns beside its networks.
    pub numbers: Vec<f64>,
    /// What the method takes over beside gradients, e.g. running statistics.
    pub carried: Vec<f64>,
}

impl Share {
    /// The share of a method that learns one network.
    pub fn of_network(loss: f64, accuracy: Option<f64>, part: StepPart) -> Share {
        let (numbers, carried) = (Vec::new(), Vec::new());
        Share { loss, accuracy, residual: None, notice: None, parts: vec![part], numbers, carried }
    }

    /// The share that `record` makes: the loss and accuracy of an episode whose gradients it adds to a step.
    pub fn record(record: impl FnOnce(&mut Step) -> Result<(f64, Option<f64>)>) -> Result<Share> {
        let mut step = Step::default();
        let (loss, accuracy) = record(&mut step)?;
        Ok(Share::of_network(loss, accuracy, StepPart::Recorded(step)))
    }

    /// Puts the share of the next episode behind those of the episodes before it. A gradient that was recorded here is added to theirs
    /// at once, so that a step holds one gradient, however many episodes it has.
    pub fn push(mut self, shares: &mut Vec<Share>) {
        if let Some(first) = shares.first_mut() {
            let parts = std::mem::take(&mut self.parts).into_iter().enumerate();
            self.parts = parts
                .filter_map(|(network, part)| match first.parts.get_mut(network) {
                    Some(sum) => sum.join(part),
                    None => Some(part),
                })
                .collect();
        }
        shares.push(self);
    }

    /// As bytes for another process.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut out = Writer::default();
        out.f64s(&[self.loss]);
        out.f64s(self.accuracy.as_slice());
        let residual = self.residual.map(|r| [r.value, f64::from(u8::from(r.intended))]);
        out.f64s(residual.as_ref().map_or(&[], |r| r.as_slice()));
        // A scalar at its bound is found by the step itself, not by an episode.
        let seen = NOTICES.iter().position(|notice| Some(*notice) == self.notice);
        out.f64s(seen.map(|place| place as f64).as_slice());
        out.f64s(&self.numbers);
        out.f64s(&self.carried);
        out.length(self.parts.len());
        for part in self.parts {
            let SentPart { gradient, statistics } = part.into_sent();
            out.f32s(&gradient);
            out.length(statistics.len());
            statistics.iter().flatten().for_each(|values| out.f32s(values));
        }
        out.done()
    }

    /// From the bytes of another process.
    pub fn from_bytes(bytes: &[u8]) -> Result<Share> {
        let mut rest = Reader::new(bytes);
        let one = |values: Vec<f64>| values.first().copied();
        let loss = one(rest.f64s()?).ok_or_else(cut)?;
        let accuracy = one(rest.f64s()?);
        let residual = match rest.f64s()?[..] {
            [value, intended] => Some(Residual { value, intended: intended == 1.0 }),
            _ => None,
        };
        let notice = one(rest.f64s()?).and_then(|place| NOTICES.get(place as usize).copied());
        let (numbers, carried) = (rest.f64s()?, rest.f64s()?);
        let mut parts = Vec::new();
        for _ in 0..rest.length()? {
            let gradient = rest.f32s()?;
            let count = rest.length()?;
            let statistics = (0..count).map(|_| Ok([rest.f32s()?, rest.f32s()?])).collect::<Result<_>>()?;
            parts.push(StepPart::Sent(SentPart { gradient, statistics }));
        }
        match rest.is_empty() {
            true => Ok(Share { loss, accuracy, residual, notice, parts, numbers, carried }),
            false => Err(cut()),
        }
    }
}

/// What an episode can show about the model.
const NOTICES: [Notice; 3] = [Notice::KernelIsIdentity, Notice::KernelIsConstant, Notice::FarFromRest];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_one_process_holds_one_gradient() {
        let part = |sent: bool| match sent {
            true => StepPart::Sent(SentPart::default()),
            false => StepPart::Recorded(Step::default()),
        };
        for (sent, kept) in [(false, [1, 0, 0]), (true, [1, 1, 1])] {
            let mut shares = Vec::new();
            (0..3).for_each(|i| Share::of_network(f64::from(i), None, part(sent)).push(&mut shares));
            assert_eq!(shares.iter().map(|share| share.loss).collect::<Vec<_>>(), [0.0, 1.0, 2.0]);
            assert_eq!(shares.iter().map(|share| share.parts.len()).collect::<Vec<_>>(), kept);
        }
    }

    #[test]
    fn bytes_come_back_exactly_and_cut_ones_are_refused() {
        let part =
            SentPart { gradient: vec![1.5, f32::NAN, -0.0], statistics: vec![[vec![0.25], vec![2.0]]] };
        let share = Share {
            loss: 0.1 + 0.2,
            accuracy: Some(0.5),
            residual: Some(Residual { value: f64::NAN, intended: true }),
            notice: Some(Notice::KernelIsConstant),
            parts: vec![StepPart::Sent(part.clone()), StepPart::Sent(SentPart::default())],
            numbers: vec![-1.0, 3.0],
            carried: vec![7.0],
        };
        let bytes = share.clone().into_bytes();
        let again = Share::from_bytes(&bytes).unwrap();
        assert_eq!(again.clone().into_bytes(), bytes);
        assert_eq!((again.loss, again.accuracy, again.notice), (share.loss, share.accuracy, share.notice));
        assert_eq!((again.numbers, again.carried), (share.numbers, share.carried));
        assert!(again.residual.unwrap().value.is_nan() && again.residual.unwrap().intended);
        let sent = again.parts.into_iter().next().unwrap().into_sent();
        assert_eq!(sent.statistics, part.statistics);
        assert_eq!(
            sent.gradient.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            part.gradient.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        );
        for length in 0..bytes.len() {
            assert!(Share::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
    }
}
