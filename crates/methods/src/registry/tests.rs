use super::*;
use crate::gp::cdkt::CdktSettings;
use crate::gradient::maml::MamlSettings;

#[test]
fn names_are_those_of_the_config_and_unknown_ones_are_refused() {
    for method in MethodName::all() {
        assert_eq!(method.name().parse::<MethodName>().unwrap(), method);
        assert_eq!(serde_json::to_string(&method).unwrap(), format!("\"{method}\""));
        assert_eq!(MethodName::all().filter(|other| *other == method).count(), 1, "{method} is there twice");
    }
    let error = "protonet".parse::<MethodName>().unwrap_err().to_string();
    assert!(error.contains("`protonet`") && error.contains("did you mean `proto-net`"), "{error}");
}

#[test]
fn settings_come_back_from_json_and_from_their_table() {
    for method in MethodName::all() {
        let settings = method.defaults();
        settings.check().unwrap();
        assert_eq!(settings.name(), method.name());
        let json = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<MethodSettings>(&json).unwrap(), settings, "{json}");
        assert_eq!(method.parse_settings(settings.table()).unwrap(), settings);
        for other in MethodName::all().filter(|other| *other != method) {
            assert_ne!(other.defaults(), settings);
        }
    }
}

#[test]
fn a_wrong_key_a_wrong_value_and_a_value_out_of_range_are_named() {
    let refused = |name: &str, table: serde_json::Value| {
        let serde_json::Value::Object(table) = table else { panic!("no table") };
        name.parse::<MethodName>().unwrap().parse_settings(table).unwrap_err().to_string()
    };
    for (method, table, says) in [
        ("maml", serde_json::json!({"inner_steps": 3, "oder": "first"}), "maml.oder: unknown field `oder`"),
        ("cdkt", serde_json::json!({"tau": 0.5, "kernel": "cosin"}), "cdkt.kernel: unknown variant `cosin`"),
        ("cdkt", serde_json::json!({"tau": "warm"}), "cdkt.tau: invalid type"),
        ("cdkt", serde_json::json!({"tau": 0.0}), "cdkt.tau = 0: it must be a number above 0"),
        ("ove", serde_json::json!({"chains": 0}), "ove.chains = 0: it must be at least 1"),
        ("bmaml-chaser", serde_json::json!({"leader_steps": 0}), "bmaml-chaser.leader_steps"),
        ("abml", serde_json::json!({"kl_weight": -1}), "abml.kl_weight"),
        ("proto-net", serde_json::json!({"steps": 1}), "proto-net.steps: unknown field"),
    ] {
        let error = refused(method, table);
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn settings_can_be_read_and_changed_as_those_of_their_method() {
    let mut settings = MethodName::default().defaults();
    settings.get_mut::<CdktSettings>().unwrap().tau = 0.7;
    assert_eq!(settings.get::<CdktSettings>().unwrap().tau, 0.7);
    assert!(settings.get::<MamlSettings>().is_none());
}
