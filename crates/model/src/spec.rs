//! What must be known of a model, beside its weights, to build it: the network, the images it sees, the method's settings.

use crate::error::Result;
use crate::foreign::NetworkRef;
use serde::{Deserialize, Serialize};
use siskin_data::{Channels, Transform};
use siskin_methods::{Method, MethodSettings, Setup};
use siskin_nn::{Architecture, DeviceChoice};

/// A model without its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// The network.
    pub architecture: Architecture,
    /// Side of the square image it sees, in pixels.
    pub image_size: u32,
    /// The method with its settings.
    pub method: MethodSettings,
    /// Classes of a training episode.
    pub way: usize,
    /// Classes of the training split: outputs of a classifier of the base classes. Models of earlier formats do not say it;
    /// only methods of the kind `transfer` need it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_classes: Option<usize>,
    /// Where the method draws random numbers, they follow from this.
    pub seed: u64,
    /// Somebody else's network that makes the vectors which [`Architecture::Frozen`] takes; none where images are seen here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkRef>,
}

impl ModelSpec {
    /// The method with fresh weights.
    pub fn build(&self, device: DeviceChoice) -> Result<Box<dyn Method>> {
        let setup = Setup {
            architecture: self.architecture,
            image_size: self.image_size as usize,
            way: self.way,
            base_classes: self.base_classes,
            seed: self.seed,
            device,
        };
        Ok(self.method.build(setup)?)
    }

    /// What becomes of an image before the network sees it, in validation, test and prediction.
    pub fn transform(&self) -> Transform {
        let channels = match self.architecture.channels() {
            1 => Channels::One,
            _ => Channels::Three,
        };
        Transform { size: self.image_size, channels, augment: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_from_json() {
        let spec = ModelSpec {
            architecture: Architecture::Conv4S,
            image_size: 28,
            method: MethodSettings::default(),
            way: 5,
            base_classes: Some(64),
            seed: 3,
            network: None,
        };
        let json = serde_json::to_string(&spec).unwrap();
        assert!(json.contains("\"architecture\":\"conv4s\"") && json.contains("\"cdkt\""), "{json}");
        assert_eq!(serde_json::from_str::<ModelSpec>(&json).unwrap(), spec);
    }
}
