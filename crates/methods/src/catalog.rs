//! The closed list of methods: their names, what each is, and where the paper speaks of it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A method of this crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodName {
    /// Amortised Bayesian meta-learning.
    Abml,
    /// Bayesian MAML.
    Bmaml,
    /// Bayesian MAML with the chaser loss.
    BmamlChaser,
    /// The deep-kernel Gaussian process with the logistic-softmax likelihood.
    #[default]
    Cdkt,
    /// Label regression by a deep-kernel Gaussian process.
    Dkt,
    /// Logistic-softmax by Gibbs sampling.
    LsGibbs,
    /// One-vs-each by Gibbs sampling.
    Ove,
    /// A classifier of the base classes and a new linear layer for each task.
    FeatureTransfer,
    /// The same with cosine layers.
    BaselinePlusPlus,
    /// Attention over full-context embeddings.
    MatchingNet,
    /// Model-agnostic meta-learning.
    Maml,
    /// Prototypical networks.
    ProtoNet,
    /// A learned relation of maps.
    RelationNet,
}

impl MethodName {
    /// Every method.
    pub const ALL: &'static [Self] = &[
        Self::Cdkt,
        Self::Dkt,
        Self::LsGibbs,
        Self::Ove,
        Self::FeatureTransfer,
        Self::BaselinePlusPlus,
        Self::MatchingNet,
        Self::ProtoNet,
        Self::RelationNet,
        Self::Maml,
        Self::Bmaml,
        Self::BmamlChaser,
        Self::Abml,
    ];

    /// The name used in configs and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cdkt => "cdkt",
            Self::Dkt => "dkt",
            Self::LsGibbs => "ls-gibbs",
            Self::Ove => "ove",
            Self::FeatureTransfer => "feature-transfer",
            Self::BaselinePlusPlus => "baseline-plus-plus",
            Self::MatchingNet => "matching-net",
            Self::ProtoNet => "proto-net",
            Self::RelationNet => "relation-net",
            Self::Maml => "maml",
            Self::Bmaml => "bmaml",
            Self::BmamlChaser => "bmaml-chaser",
            Self::Abml => "abml",
        }
    }

    /// What it is, in a line.
    pub fn about(self) -> &'static str {
        match self {
            Self::Cdkt => {
                "deep-kernel Gaussian process with the logistic-softmax likelihood and a temperature"
            }
            Self::Dkt => {
                "label regression by a deep-kernel Gaussian process, cosine kernel (Patacchiola et al. 2020)"
            }
            Self::LsGibbs => {
                "logistic-softmax Gaussian process by Gibbs sampling (Galy-Fajou et al. 2020, Snell and Zemel 2021)"
            }
            Self::Ove => "one-vs-each Gaussian process by Gibbs sampling (Snell and Zemel 2021)",
            Self::FeatureTransfer => {
                "pre-trained classifier; a linear layer is fitted to each support (Chen et al. 2019)"
            }
            Self::BaselinePlusPlus => {
                "as feature-transfer, with cosines and a scale for each class (Chen et al. 2019)"
            }
            Self::MatchingNet => "attention over full-context embeddings by LSTMs (Vinyals et al. 2016)",
            Self::RelationNet => "a learned relation between class maps and query maps (Sung et al. 2018)",
            Self::ProtoNet => "nearest class mean by squared Euclidean distance (Snell et al. 2017)",
            Self::Maml => "a few gradient steps on all weights for each task (Finn et al. 2017)",
            Self::Bmaml => "particles of the last layer, moved by Stein variational steps (Yoon et al. 2018)",
            Self::BmamlChaser => "Bayesian MAML with the chaser loss (Yoon et al. 2018)",
            Self::Abml => "a Gaussian over all weights, adapted by gradient steps (Ravi and Beatson 2019)",
        }
    }

    /// Where the paper describes or measures it.
    pub fn paper(self) -> &'static str {
        match self {
            Self::Cdkt => "Section 4, Tables 1 and 2",
            Self::Dkt
            | Self::LsGibbs
            | Self::Ove
            | Self::FeatureTransfer
            | Self::BaselinePlusPlus
            | Self::MatchingNet
            | Self::ProtoNet
            | Self::RelationNet => "Section 5, Tables 1 and 2",
            Self::Maml | Self::Abml => "Section 5, Table 1",
            Self::Bmaml | Self::BmamlChaser => "Section 5, Tables 1 and 2",
        }
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for MethodName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|m| m.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|m| m.name()).collect();
            Error::Settings(format!("unknown method `{name}`; these are known: {}", known.join(", ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_config_and_unknown_ones_are_refused() {
        for &method in MethodName::ALL {
            assert_eq!(method.name().parse::<MethodName>().unwrap(), method);
            let json = serde_json::to_string(&method).unwrap();
            assert_eq!(json, format!("\"{method}\""));
        }
        let error = "protonet".parse::<MethodName>().unwrap_err().to_string();
        assert!(error.contains("`protonet`") && error.contains("proto-net"), "{error}");
    }
}
