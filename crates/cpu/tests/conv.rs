//! The general convolution against its definition.

mod twin;

use siskin_cpu::{Batch, Conv, ConvGrads, ConvSpec, Error, Isa, Workspace};
use twin::*;

fn compare(isa: Isa, spec: ConvSpec, shape: [usize; 3]) {
    let mut rng = stream(7);
    let [n, h, w] = shape;
    let x = numbers(&mut rng, n * spec.c_in * h * w, 1.0);
    let weight = numbers(&mut rng, spec.c_out * spec.c_in * spec.kernel * spec.kernel, 0.3);
    let bias = numbers(&mut rng, spec.c_out, 0.3);
    let dout = numbers(&mut rng, out_len(&spec, shape), 1.0);
    let what = format!("{} {spec:?} {shape:?}", isa.name());

    let (conv, workspace) = (Conv::with_isa(spec, isa).unwrap(), Workspace::new());
    let mut out = vec![f32::NAN; dout.len()];
    conv.forward(&workspace, &weight, Some(&bias), Batch::new(&x, shape), &mut out).unwrap();
    let twin_out = twin::conv(&spec, &wide(&weight), &wide(&bias), &wide(&x), shape);
    assert_close(&format!("{what} forward"), &out, &twin_out, 1e-5);

    let (mut dw, mut db, mut dx) =
        (vec![f32::NAN; weight.len()], vec![f32::NAN; bias.len()], vec![f32::NAN; x.len()]);
    let grads = ConvGrads { weight: &mut dw, bias: Some(&mut db), images: Some(&mut dx) };
    conv.backward(&workspace, &weight, Batch::new(&x, shape), &dout, grads).unwrap();
    let (tw, tb, tx) = conv_backward(&spec, &wide(&weight), &wide(&x), shape, &wide(&dout));
    assert_close(&format!("{what} dweight"), &dw, &tw, 1e-5);
    assert_close(&format!("{what} dbias"), &db, &tb, 1e-5);
    assert_close(&format!("{what} dx"), &dx, &tx, 1e-5);

    let mut alone = vec![f32::NAN; weight.len()];
    let grads = ConvGrads { weight: &mut alone, bias: None, images: None };
    conv.backward(&workspace, &weight, Batch::new(&x, shape), &dout, grads).unwrap();
    assert_eq!(alone, dw, "{what}: dweight changes with what else is asked for");
}

#[test]
fn every_geometry_equals_its_definition() {
    for isa in Isa::available() {
        for (c_in, c_out) in [(1, 5), (3, 16), (16, 32), (20, 7), (33, 48)] {
            for (kernel, padding) in [(1, 0), (3, 0), (3, 1)] {
                for stride in [1, 2] {
                    let spec = ConvSpec { c_in, c_out, kernel, stride, padding };
                    for shape in [[1, 3, 3], [2, 5, 8], [3, 10, 7]] {
                        compare(isa, spec, shape);
                    }
                }
            }
        }
    }
}

#[test]
fn more_images_than_chunks_and_more_tiles_than_a_group() {
    for isa in Isa::available() {
        compare(isa, ConvSpec { c_in: 16, c_out: 16, kernel: 3, stride: 1, padding: 1 }, [37, 9, 6]);
        compare(isa, ConvSpec { c_in: 64, c_out: 64, kernel: 3, stride: 1, padding: 1 }, [1, 42, 21]);
        compare(isa, ConvSpec { c_in: 2, c_out: 16, kernel: 3, stride: 2, padding: 1 }, [37, 9, 6]);
    }
}

#[test]
fn many_channels_as_in_resnet12() {
    compare(Isa::detect(), ConvSpec { c_in: 160, c_out: 320, kernel: 3, stride: 1, padding: 1 }, [2, 5, 5]);
    compare(Isa::detect(), ConvSpec { c_in: 160, c_out: 320, kernel: 1, stride: 1, padding: 0 }, [2, 5, 5]);
}

#[test]
fn what_is_not_built_is_refused() {
    let spec = ConvSpec { c_in: 3, c_out: 4, kernel: 3, stride: 1, padding: 1 };
    for bad in [
        ConvSpec { kernel: 5, ..spec },
        ConvSpec { stride: 3, ..spec },
        ConvSpec { padding: 2, ..spec },
        ConvSpec { kernel: 1, ..spec },
        ConvSpec { c_in: 0, ..spec },
    ] {
        assert!(matches!(Conv::new(bad), Err(Error::Unsupported { .. })), "{bad:?}");
    }
    let conv = Conv::new(ConvSpec { padding: 0, ..spec }).unwrap();
    let workspace = Workspace::new();
    let run = |weight: usize, x: usize, shape, out: usize| {
        conv.forward(
            &workspace,
            &vec![0.0; weight],
            None,
            Batch::new(&vec![0.0; x], shape),
            &mut vec![0.0; out],
        )
    };
    assert_eq!(run(108, 27, [1, 3, 3], 4), Ok(()));
    assert!(matches!(run(107, 27, [1, 3, 3], 4), Err(Error::Length { name: "weight", expected: 108, .. })));
    assert!(matches!(run(108, 26, [1, 3, 3], 4), Err(Error::Length { name: "input", .. })));
    assert!(matches!(run(108, 27, [1, 3, 3], 5), Err(Error::Length { name: "output", .. })));
    assert!(matches!(run(108, 12, [1, 2, 2], 0), Err(Error::TooSmall { .. })));
    assert!(matches!(run(108, 0, [0, 3, 3], 0), Err(Error::TooSmall { .. })));
}
