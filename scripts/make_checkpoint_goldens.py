#!/usr/bin/env python3
"""Writes tests/data/checkpoints: tiny random Llama models, quantized as published checkpoints are, and the weights
and logits that a reader must get from them.

    scripts/make_checkpoint_goldens.py [NAME...]     all cases, or those named

Each method's own package packs and unpacks the weights. The files in the tree come from torch 2.15.0, transformers
5.24.0, gptqmodel 7.7.0, compressed-tensors 0.20.0 and 0.12.2, nvidia-modelopt 0.47.0, bitsandbytes 0.50.2 and autoawq
0.2.9, on a CPU. autoawq's awq/__init__.py was emptied, because it imports parts of transformers that are no more.
A case needs the package of its method alone; ct-int4-act needs the older compressed-tensors, and is left out unless
it is named.

The folder of a case holds config.json, model.safetensors and golden.json:
  method, package: who wrote the weights
  ids, logits: the tokens, and the logits of the last four positions by transformers' Llama in float32
  weights: the SHA-256 of each unpacked matrix [out, in] as little-endian float32; every zero in it is positive,
    because packages differ in the sign of the four-bit -0
The unpacked weights are products in float32: scales of 16 bits are converted to float32 first.
"""

import dataclasses
import hashlib
import importlib.metadata
import json
import pathlib
import shutil
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests/data/checkpoints"
IDS = [1, 17, 30, 45, 9, 21, 40, 7, 5, 13, 44, 38]
LAST = 4  # positions whose logits are kept
GROUP = 32
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclasses.dataclass
class Quantized:
    """What a method makes of a model."""

    package: str  # name and version
    config: dict  # quantization_config of config.json
    tensors: dict  # name: tensor, of the linear layers at least
    weights: dict  # name: unpacked matrix [out, in] in float32
    files: dict = dataclasses.field(default_factory=dict)  # name: JSON of further files


def version(package):
    return f"{package} {importlib.metadata.version(package)}"


def random_model(seed, config, dtype):
    """A float32 model, whose weights are numbers of the type dtype."""
    torch.manual_seed(seed)
    torch_config = LlamaConfig(**config)
    torch_config._attn_implementation = "eager"
    model = LlamaForCausalLM(torch_config).eval().requires_grad_(False)
    for name, weight in sorted(model.named_parameters()):
        if "norm" in name:
            values = 1 + 0.1 * torch.randn_like(weight)
        else:
            values = 0.1 * torch.randn_like(weight)
        if "proj" in name:
            # Rows without negative or without positive numbers, for zero points at both ends of the range,
            # side by side and at the end of a word of 32 bits.
            values[[5, 7, 9]] = values[[5, 7, 9]].abs()
            values[[6, 8]] = -values[[6, 8]].abs()
        weight.copy_(values.to(dtype).float())
    return model


def linears(model):
    """The layers that are quantized, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name != "lm_head"
    }


def range_of_groups(weight, bits, group, symmetric):
    """Scales and zero points [out, groups] of integers 0 to 2^bits - 1. The scales are numbers of 16 bits."""
    groups = weight.unflatten(1, (-1, group))
    low = groups.amin(2).clamp(max=0)
    high = groups.amax(2).clamp(min=0)
    top = 2**bits - 1
    if symmetric:
        scales = (2 * torch.maximum(-low, high) / top).half().float()
        return scales, torch.full_like(scales, 2 ** (bits - 1))
    scales = ((high - low) / top).half().float()
    return scales, (-low / scales).round().clamp(0, top)


def rounded(weight, bits, groups, scales, zeros):
    """The nearest weights that the integers can tell. groups: each column's group."""
    scales, zeros = scales[:, groups], zeros[:, groups]
    return ((weight / scales + zeros).round().clamp(0, 2**bits - 1) - zeros) * scales


def gptq(model, bits=4, group=GROUP, sym=True, desc_act=False, version_2=False, old_config=False):
    """GPTQ's file format; the rounding is plain rounding to nearest.

    The first version of the format stores zero points less 1. gptqmodel subtracts the 1 of all fields of a word of
    32 bits in one subtraction, and a reader adds them in one addition. So the field of a zero point of 0 holds
    2^bits - 1 and has borrowed 1 from the next field, which the addition gives back. A zero point of 15 is stored as
    14, or as 13 beside such a field. Only 3 bits are subtracted and added field by field, modulo 8.
    A reader that adds 1 to each field alone gets 2^bits for 0, and 1 too little in the next field.
    """
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.quantization.config import FORMAT, QuantizeConfig
    from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module, convert_gptq_v2_to_v1_format_module

    format_ = FORMAT.GPTQ_V2 if version_2 else FORMAT.GPTQ
    settings = QuantizeConfig(bits=bits, group_size=group, sym=sym, desc_act=desc_act, format=format_)
    tensors, weights = {}, {}
    for name, linear in linears(model).items():
        rows, columns = linear.weight.shape
        width = columns if group == -1 else group
        order = torch.randperm(columns) if desc_act else torch.arange(columns)
        groups = torch.empty(columns, dtype=torch.int32)
        groups[order] = torch.arange(columns, dtype=torch.int32) // width
        scales, zeros = range_of_groups(linear.weight[:, order], bits, width, sym)
        linear.weight.copy_(rounded(linear.weight, bits, groups, scales, zeros))

        def layer():
            return TorchLinear(bits=bits, group_size=group, sym=sym, desc_act=desc_act, in_features=columns,
                               out_features=rows, bias=False, register_buffers=True, format=format_).eval()

        packed = layer()
        packed.pack_original(linear, scales.clone(), zeros.clone(), groups)
        if not version_2:
            convert_gptq_v2_to_v1_format_module(packed, settings)
        stored = {key: packed.state_dict()[key].clone() for key in ["qweight", "qzeros", "scales", "g_idx"]}
        tensors |= {f"{name}.{key}": tensor for key, tensor in stored.items()}

        read = layer()
        read.load_state_dict(stored)
        if not version_2:
            convert_gptq_v1_to_v2_format_module(read, bits, torch.int32)
        read.scales = read.scales.float()
        weights[f"{name}.weight"] = read.dequantize_weight().T.contiguous()
        assert torch.equal(weights[f"{name}.weight"], linear.weight), name
    config = {
        "bits": bits,
        "group_size": group,
        "damp_percent": 0.1,
        "desc_act": desc_act,
        "static_groups": False,
        "sym": sym,
        "true_sequential": True,
        "model_name_or_path": None,
        "model_file_base_name": "model",
        "quant_method": "gptq",
    }
    if not old_config:
        config = settings.to_dict() | {"meta": {"quantizer": [version("gptqmodel").replace(" ", ":")]}}
    return Quantized(version("gptqmodel"), config, tensors, weights)


def awq(model):
    """AutoAWQ's GEMM format, without its search for scales of activations."""
    from awq.models._config import AwqConfig
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    tensors, weights = {}, {}
    for name, linear in linears(model).items():
        scales, zeros = range_of_groups(linear.weight, 4, GROUP, symmetric=False)
        groups = torch.arange(linear.in_features) // GROUP
        linear.weight.copy_(rounded(linear.weight, 4, groups, scales, zeros))
        packed = WQLinear_GEMM.from_linear(linear, 4, GROUP, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
        tensors |= {f"{name}.{key}": getattr(packed, key) for key in ["qweight", "qzeros", "scales"]}
        matrix = dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), 4, GROUP)
        weights[f"{name}.weight"] = matrix.T.contiguous()
        assert torch.equal(weights[f"{name}.weight"], linear.weight), name
    config = AwqConfig(q_group_size=GROUP, modules_to_not_convert=["lm_head"]).to_transformers_dict()
    return Quantized(version("autoawq"), config, tensors, weights)


def saved(folder):
    """All tensors of a saved model, and its configuration."""
    return load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())


def ranges(weight, args):
    """Least and greatest weights of each part that has a scale."""
    if args.strategy == "tensor":
        parts = weight.reshape(1, -1)
    elif args.strategy == "channel":
        return weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    elif args.strategy == "block":
        from compressed_tensors.quantization.utils import maybe_pad_tensor_for_block_quant

        height, width = args.block_structure
        padded = maybe_pad_tensor_for_block_quant(weight, args.block_structure)
        parts = padded.unflatten(1, (-1, width)).unflatten(0, (-1, height)).transpose(1, 2).flatten(2)
    else:
        parts = weight.unflatten(1, (-1, args.group_size))
    return parts.amin(-1), parts.amax(-1)


def compressed(model, scheme, dtype, **changes):
    """compressed-tensors. scheme: the name of a preset; changes: those of its settings of weights."""
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, QuantizationStatus, apply_quantization_config
    from compressed_tensors.quantization import preset_name_to_scheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    group = preset_name_to_scheme(scheme, ["Linear"])
    group.weights = group.weights.model_copy(update=changes)
    model = model.to(dtype)
    settings = QuantizationConfig(config_groups={"group_0": group}, ignore=["lm_head"])
    apply_quantization_config(model, settings)
    for linear in linears(model).values():
        args = linear.quantization_scheme.weights
        low, high = ranges(linear.weight, args)
        overall = None
        if hasattr(linear, "weight_global_scale"):
            overall = generate_gparam(linear.weight.amin().float(), linear.weight.amax().float())
            linear.weight_global_scale.copy_(overall)
        scale, zero = calculate_qparams(low, high, args, overall)
        linear.weight_scale.copy_(scale)
        if hasattr(linear, "weight_zero_point"):
            linear.weight_zero_point.copy_(zero)
        # Scales of activations, which a calibration would find.
        if hasattr(linear, "input_scale"):
            linear.input_scale.copy_(torch.rand(1) * 0.1)
        if hasattr(linear, "input_global_scale"):
            linear.input_global_scale.copy_(torch.rand(1) * 1000)
        linear.quantization_status = QuantizationStatus.FROZEN
    with tempfile.TemporaryDirectory() as folder:
        compressor = ModelCompressor.from_pretrained_model(model)
        compressor.compress_model(model)
        model.save_pretrained(folder)
        compressor.update_config(folder)
        tensors, config = saved(pathlib.Path(folder))
    weights = {}
    for name, linear in linears(model).items():
        own = {key[len(name) + 1 :]: tensor for key, tensor in tensors.items() if key.startswith(name + ".")}
        weights[f"{name}.weight"] = decompressed(own, linear.quantization_scheme)
    return Quantized(version("compressed-tensors"), config["quantization_config"], tensors, weights)


def decompressed(tensors, scheme):
    from compressed_tensors.compressors.mx_utils import decompress_mx_scale
    from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization.lifecycle.forward import dequantize

    if scheme.weights.num_bits == 4 and scheme.weights.type == "float":
        # The compressor would round the weights to bfloat16.
        packed, scale = tensors["weight_packed"], tensors["weight_scale"]
        numbers = unpack_fp4_from_uint8(packed, packed.shape[0], 2 * packed.shape[1], torch.float32)
        scale = decompress_mx_scale(scale) if scale.dtype == torch.uint8 else scale
        overall = tensors.get("weight_global_scale")
        return dequantize(numbers, scale.float(), args=scheme.weights, global_scale=overall)
    tensors = tensors | {"weight_scale": tensors["weight_scale"].float()}
    return BaseCompressor.get_value_from_registry(scheme.format).decompress(tensors, scheme)["weight"]


def compressed_in_order_of_activations(model, dtype):
    """compressed-tensors 0.12.2: weight_g_idx tells each column's group, or is -1 for groups in order."""
    from compressed_tensors.compressors import PackedQuantizationCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams

    args = QuantizationArgs(num_bits=4, symmetric=True, strategy="group", group_size=GROUP, actorder="group",
                            observer="minmax")
    settings = QuantizationConfig(
        config_groups={"group_0": QuantizationScheme(targets=["Linear"], weights=args)},
        ignore=["lm_head"],
        format="pack-quantized",
        quantization_status="compressed",
    )
    packer = PackedQuantizationCompressor()
    tensors, weights = {}, {}
    for name, linear in linears(model.to(dtype)).items():
        order = torch.randperm(linear.in_features)
        groups = torch.empty(linear.in_features, dtype=torch.int32)
        groups[order] = torch.arange(linear.in_features, dtype=torch.int32) // GROUP
        scale, zero = calculate_qparams(*ranges(linear.weight[:, order], args), args)
        if name.endswith("o_proj"):
            groups.fill_(-1)
        own = packer.compress_weight(linear.weight, scale, args, zero, groups)
        own |= {"weight_scale": scale, "weight_g_idx": groups}
        tensors |= {f"{name}.{key}": tensor for key, tensor in own.items()}
        own["weight_scale"] = scale.float()
        weights[f"{name}.weight"] = packer.decompress_weight(own, args)
    config = {"version": importlib.metadata.version("compressed-tensors"), "sparsity_config": {},
              "transform_config": {}} | settings.model_dump()
    return Quantized(version("compressed-tensors"), config, tensors, weights)


def fp8(model):
    """Blocks of 128 x 128 as DeepSeek has them. transformers takes only whole blocks; so the matrix gets zeros around
    it, and loses them again after."""
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Quantize, _dequantize_fp8_weight

    block = 128
    settings = FineGrainedFP8Config(modules_to_not_convert=["lm_head"])
    quantizer = Fp8Quantize(type("Quantizer", (), {"quantization_config": settings}))
    tensors, weights = {}, {}
    for name, linear in linears(model).items():
        rows, columns = linear.weight.shape
        padded = torch.nn.functional.pad(linear.weight, (0, -columns % block, 0, -rows % block))
        made = quantizer.convert({f"{name}.weight": padded})
        matrix, scale = made[f"{name}.weight"][:rows, :columns].contiguous(), made[f"{name}.weight_scale_inv"]
        tensors |= {f"{name}.weight": matrix, f"{name}.weight_scale_inv": scale}
        weights[f"{name}.weight"] = _dequantize_fp8_weight(matrix, scale, [block, block], torch.float32)
    config = {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "modules_to_not_convert": ["lm_head"],
        "quant_method": "fp8",
        "weight_block_size": [block, block],
    }
    return Quantized(version("transformers"), config, tensors, weights)


def modelopt(model, dtype, settings, algorithm):
    """ModelOpt as its export to Hugging Face's layout writes it; IDS give the scales of the activations."""
    import modelopt.torch.quantization as quantization
    from modelopt.torch.export import export_hf_checkpoint
    from modelopt.torch.quantization.qtensor import FP8QTensor, NVFP4QTensor

    model = quantization.quantize(
        model.to(dtype), getattr(quantization, settings), lambda model: model(torch.tensor([IDS]))
    )
    shapes = {f"{name}.weight": linear.weight.shape for name, linear in linears(model).items()}
    with tempfile.TemporaryDirectory() as folder:
        export_hf_checkpoint(model, export_dir=folder)
        tensors, config = saved(pathlib.Path(folder))
        beside = json.loads((pathlib.Path(folder) / "hf_quant_config.json").read_text())
    weights = {}
    for name, shape in shapes.items():
        matrix, scale = tensors[name], tensors[f"{name}_scale"]
        if algorithm == "NVFP4":
            packed = NVFP4QTensor(shape, dtype, matrix)
            scales = dict(scale=scale, double_scale=tensors[f"{name}_scale_2"], block_sizes={-1: 16})
            weights[name] = packed.dequantize(torch.float32, **scales)
        else:
            weights[name] = FP8QTensor(shape, dtype, matrix).dequantize(torch.float32, scale=scale.float())
    assert config["quantization_config"]["quant_algo"] == algorithm
    files = {"hf_quant_config.json": beside}
    return Quantized(version("nvidia-modelopt"), config["quantization_config"], tensors, weights, files)


def bitsandbytes(model, dtype, **settings):
    """bitsandbytes as transformers saves it.

    Four bits are unpacked by the package's portable function, which works as its CUDA kernel does. The CPU kernel
    starts a new block with every row, which is wrong where a row is no multiple of 64 weights.
    """
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
    from bitsandbytes.functional import QuantState, dequantize_blockwise, int8_vectorwise_dequant
    from transformers import BitsAndBytesConfig

    names = list(linears(model))
    with tempfile.TemporaryDirectory() as folder:
        model.to(dtype).save_pretrained(folder)
        config = BitsAndBytesConfig(**settings)
        LlamaForCausalLM.from_pretrained(
            folder, quantization_config=config, dtype=dtype, device_map="cpu"
        ).save_pretrained(folder)
        tensors, config = saved(pathlib.Path(folder))
    weights = {}
    for name in names:
        key = f"{name}.weight"
        if settings.get("load_in_8bit"):
            weights[key] = int8_vectorwise_dequant(tensors[key], tensors[f"{name}.SCB"])
            continue
        own = {part: tensor for part, tensor in tensors.items() if part.startswith(f"{key}.")}
        state = QuantState.from_dict(own, torch.device("cpu"))
        scales = dequantize_blockwise(state.absmax, state.state2) + state.offset if state.nested else state.absmax
        weights[key] = _dequantize_4bit_compute(
            tensors[key].flatten(), scales, state.code, state.blocksize, state.shape, torch.float32
        )
    return Quantized(version("bitsandbytes"), config["quantization_config"], tensors, weights)


CASES = {
    "gptq4": (torch.float16, gptq, {}),
    "gptq4-asym": (torch.float16, gptq, dict(sym=False)),
    "gptq4-act": (torch.float16, gptq, dict(sym=False, desc_act=True)),
    "gptq_v2": (torch.float16, gptq, dict(sym=False, version_2=True)),
    "gptq2": (torch.float16, gptq, dict(bits=2)),
    "gptq3": (torch.float16, gptq, dict(bits=3)),
    "gptq8": (torch.float16, gptq, dict(bits=8, group=-1, old_config=True)),
    "awq4": (torch.float16, awq, {}),
    "ct-int4": (torch.bfloat16, compressed, dict(scheme="W4A16", group_size=GROUP)),
    "ct-int4-asym": (torch.float16, compressed, dict(scheme="W4A16_ASYM", group_size=GROUP)),
    "ct-int4-act": (torch.bfloat16, compressed_in_order_of_activations, {}),
    "ct-int8": (torch.bfloat16, compressed, dict(scheme="W8A8")),
    "ct-fp8": (torch.bfloat16, compressed, dict(scheme="FP8_DYNAMIC")),
    "ct-fp8-tensor": (torch.bfloat16, compressed, dict(scheme="FP8")),
    "ct-fp8-block": (torch.bfloat16, compressed, dict(scheme="FP8_BLOCK")),
    "ct-nvfp4": (torch.bfloat16, compressed, dict(scheme="NVFP4")),
    "ct-mxfp4": (torch.bfloat16, compressed, dict(scheme="MXFP4A16")),
    "fp8": (torch.bfloat16, fp8, {}),
    "modelopt-fp8": (torch.bfloat16, modelopt, dict(settings="FP8_DEFAULT_CFG", algorithm="FP8")),
    "modelopt-nvfp4": (torch.bfloat16, modelopt, dict(settings="NVFP4_DEFAULT_CFG", algorithm="NVFP4")),
    "bnb-nf4": (
        torch.bfloat16,
        bitsandbytes,
        dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype="bfloat16"),
    ),
    "bnb-nf4-double": (
        torch.float16,
        bitsandbytes,
        dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
    ),
    "bnb-fp4": (
        torch.float16,
        bitsandbytes,
        dict(load_in_4bit=True, bnb_4bit_quant_type="fp4", llm_int8_skip_modules=["lm_head"]),
    ),
    "bnb-int8": (torch.float16, bitsandbytes, dict(load_in_8bit=True)),
}
NAMED_ONLY = {"ct-int4-act"}
SIZES = {
    "gptq4-act": {"intermediate_size": 96},  # three groups
    "gptq3": {"head_dim": 32},  # 3 bits are packed for multiples of 32 outputs
    "awq4": {"head_dim": 32},  # the packer wants multiples of 32 outputs
    "ct-int4-act": {"intermediate_size": 96},
    "ct-fp8-block": {"intermediate_size": 160},  # a whole block and a part
    "fp8": {"intermediate_size": 160},
    # q_proj and o_proj have 288 blocks of 64 weights: more than the 256 scales of a block of scales.
    "bnb-nf4-double": {"num_attention_heads": 16, "head_dim": 36, "intermediate_size": 32},
} | {
    name: {"hidden_size": 16}  # for smaller files
    for name in ["ct-int8", "ct-fp8", "ct-fp8-tensor", "modelopt-fp8", "bnb-nf4", "bnb-fp4", "bnb-int8"]
}


def logits(model, state):
    model.load_state_dict(state)
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0, -LAST:].numpy()


def write(name):
    dtype, method, options = CASES[name]
    config = MODEL | SIZES.get(name, {}) | {"torch_dtype": str(dtype).removeprefix("torch.")}
    seed = list(CASES).index(name)
    model = random_model(seed, config, dtype)
    plain = {key: tensor.to(dtype) for key, tensor in model.state_dict().items() if "proj" not in key}
    if method not in (gptq, awq, fp8):
        options = options | {"dtype": dtype}
    made = method(model, **options)
    tensors = plain | made.tensors
    state = {key: tensors[key].float() for key in plain} | made.weights
    golden = {
        "method": made.config.get("quant_method"),
        "package": made.package,
        "ids": IDS,
        "logits": [[round(float(x), 5) for x in row] for row in logits(random_model(seed, config, dtype), state)],
        "weights": {
            key: hashlib.sha256((matrix.numpy() + 0).astype("<f4").tobytes()).hexdigest()  # + 0: no negative zeros
            for key, matrix in made.weights.items()
        },
    }
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file(dict(sorted(tensors.items())), folder / "model.safetensors", {"format": "pt"})
    files = made.files | {"config.json": config | {"quantization_config": made.config}}
    for file, value in files.items():
        (folder / file).write_text(json.dumps(value) + "\n")
    lines = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in golden.items())
    (folder / "golden.json").write_text(f"{{\n{lines}\n}}\n")


for case in sys.argv[1:] or [name for name in CASES if name not in NAMED_ONLY]:
    write(case)
