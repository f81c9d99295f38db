//! Methods that compare a query with the support by a learned distance.

pub mod matching_net;
pub mod proto_net;
pub mod relation_net;
