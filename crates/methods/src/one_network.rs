//! Methods whose only learned part is one network, its head included: they say how a step's shares and a task's answers come of it.

use crate::error::Result;
use crate::method::{Method, TrainsOn};
use crate::{EpisodeRows, Images, Place, Prediction, Rates, Rows, Share, State, StepReport, TaskRows};
use siskin_nn::{Head, Network};

/// A [`Method`] that learns one network and nothing beside it: optimiser step, embedding and state are those of the network.
pub trait OneNetwork: Send + Sync {
    /// The layers after the backbone that are trained with it.
    type Head: Head;

    /// The network.
    fn network(&self) -> &Network<Self::Head>;

    /// The network, to train it or to put its state back.
    fn network_mut(&mut self) -> &mut Network<Self::Head>;

    /// As [`Method::trains_on`].
    fn trains_on(&self) -> TrainsOn {
        TrainsOn::Episodes
    }

    /// As [`Method::shares`].
    fn shares(&self, episodes: &[EpisodeRows<'_>], place: Place) -> Result<Vec<Share>>;

    /// As [`Method::predict`]; all rows are features.
    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction>;
}

impl<M: OneNetwork> Method for M {
    fn trains_on(&self) -> TrainsOn {
        OneNetwork::trains_on(self)
    }

    fn shares(&self, episodes: &[EpisodeRows<'_>], place: Place) -> Result<Vec<Share>> {
        OneNetwork::shares(self, episodes, place)
    }

    fn take(&mut self, shares: Vec<Share>, rates: Rates) -> Result<StepReport> {
        StepReport::of_shares(self.network_mut(), shares, rates.network)
    }

    fn embed(&self, images: Images<'_>) -> Result<Rows> {
        Ok(Rows::Features(self.network().features(images)?))
    }

    fn predict(&self, task: &TaskRows<'_>) -> Result<Prediction> {
        OneNetwork::predict(self, task)
    }

    fn state(&self) -> State {
        State::of_network(self.network().state())
    }

    fn load_state(&mut self, state: &State) -> Result<()> {
        Ok(self.network_mut().load_state(state.network()?)?)
    }
}
