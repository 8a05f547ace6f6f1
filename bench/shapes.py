"""The shapes: convolutions of published networks, and odd ones that callers use.

A shape is one relation between a big tensor, which the strides walk over, a small one, and weights. Each of the six
operations solves it for one of the three; so a first layer is also, as ConvTranspose, a last layer to RGB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

Each = int | tuple[int, ...]
"""One number for every spatial axis, or one each."""


@dataclass(frozen=True)
class Shape:
    """A relation: channels and extents of the big side, channels of the small one, and the geometry of taps."""

    name: str
    source: str
    batch: int
    big: int
    small: int
    extent: tuple[int, ...]
    kernel: Each
    stride: Each = 1
    pad: Each = 0
    dilation: Each = 1
    groups: int = 1
    pad_end: Each | None = None

    def each(self, value: Each) -> tuple[int, ...]:
        return (value,) * len(self.extent) if isinstance(value, int) else value

    @property
    def kernels(self) -> tuple[int, ...]:
        return self.each(self.kernel)

    @property
    def strides(self) -> tuple[int, ...]:
        return self.each(self.stride)

    @property
    def dilations(self) -> tuple[int, ...]:
        return self.each(self.dilation)

    @property
    def pads_begin(self) -> tuple[int, ...]:
        return self.each(self.pad)

    @property
    def pads_end(self) -> tuple[int, ...]:
        return self.pads_begin if self.pad_end is None else self.each(self.pad_end)

    @property
    def rests(self) -> tuple[int, ...]:
        """For each axis the cells left over after the last stride: ConvTranspose's output_padding."""
        return tuple(room % step for room, step in zip(self._rooms(), self.strides))

    @property
    def small_extent(self) -> tuple[int, ...]:
        return tuple(room // step + 1 for room, step in zip(self._rooms(), self.strides))

    def _pairs(self) -> list[int]:
        """For each axis the number of pairs of a small position and a tap that lie inside the big side."""
        axes = zip(self.extent, self.small_extent, self.kernels, self.strides, self.dilations, self.pads_begin)
        return [
            sum(0 <= o * stride + k * dilation - pad < big for o in range(small) for k in range(taps))
            for big, small, taps, stride, dilation, pad in axes
        ]

    def _rooms(self) -> list[int]:
        """For each axis the distance that the kernel can move."""
        axes = zip(self.extent, self.pads_begin, self.pads_end, self.kernels, self.dilations)
        return [cells + begin + end - (taps - 1) * step - 1 for cells, begin, end, taps, step in axes]

    @property
    def depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.big == self.small

    @cached_property
    def flops(self) -> int:
        """The FLOP of any of the six operations: a multiplication and an addition for every tap inside the input."""
        return 2 * self.batch * self.small * self.big // self.groups * math.prod(self._pairs())

    @property
    def taps(self) -> int:
        return math.prod(self.kernels)

    @property
    def elements(self) -> int:
        """The size of the three tensors: the minimum that is read or written."""
        sides = self.big * math.prod(self.extent) + self.small * math.prod(self.small_extent)
        return self.batch * sides + self.small * self.big // self.groups * self.taps


# Columns: name, source, batch, channels of the big and of the small side, extent of the big side.
NETWORKS = (
    # Classification.
    Shape("resnet50_conv1", "ResNet-50, conv1", 1, 3, 64, (224, 224), 7, 2, 3),
    Shape("resnet50_conv1_b16", "ResNet-50, conv1", 16, 3, 64, (224, 224), 7, 2, 3),
    Shape("resnet50_l1_3x3", "ResNet-50, layer1 conv2", 1, 64, 64, (56, 56), 3, 1, 1),
    Shape("resnet50_l1_3x3_b16", "ResNet-50, layer1 conv2", 16, 64, 64, (56, 56), 3, 1, 1),
    Shape("resnet50_l1_expand_b16", "ResNet-50, layer1 conv3", 16, 64, 256, (56, 56), 1),
    Shape("resnet50_l2_down_b16", "ResNet-50, layer2.0 conv2", 16, 128, 128, (56, 56), 3, 2, 1),
    Shape("resnet50_l2_shortcut_b16", "ResNet-50, layer2.0 downsample", 16, 256, 512, (56, 56), 1, 2),
    Shape("resnet50_l2_3x3", "ResNet-50, layer2 conv2", 1, 128, 128, (28, 28), 3, 1, 1),
    Shape("resnet50_l3_3x3_b16", "ResNet-50, layer3 conv2", 16, 256, 256, (14, 14), 3, 1, 1),
    Shape("resnet50_l3_reduce", "ResNet-50, layer3 conv1", 1, 1024, 256, (14, 14), 1),
    Shape("resnet50_l4_3x3", "ResNet-50, layer4 conv2", 1, 512, 512, (7, 7), 3, 1, 1),
    Shape("resnet50_l4_3x3_b16", "ResNet-50, layer4 conv2", 16, 512, 512, (7, 7), 3, 1, 1),
    Shape("resnet50_l4_expand_b16", "ResNet-50, layer4 conv3", 16, 512, 2048, (7, 7), 1),
    Shape("alexnet_conv1_b16", "AlexNet, conv1", 16, 3, 96, (227, 227), 11, 4),
    Shape("alexnet_conv2_b16", "AlexNet, conv2, two groups", 16, 96, 256, (27, 27), 5, 1, 2, groups=2),
    Shape("vgg16_conv1_1", "VGG-16, conv1_1", 1, 3, 64, (224, 224), 3, 1, 1),
    Shape("vgg16_conv1_2", "VGG-16, conv1_2", 1, 64, 64, (224, 224), 3, 1, 1),
    Shape("vgg16_conv3_2", "VGG-16, conv3_2", 1, 256, 256, (56, 56), 3, 1, 1),
    Shape("vgg16_conv4_2", "VGG-16, conv4_2", 1, 512, 512, (28, 28), 3, 1, 1),
    Shape("vgg16_conv5_1_b16", "VGG-16, conv5_1", 16, 512, 512, (14, 14), 3, 1, 1),
    Shape("inception3_1x7_b16", "Inception v3, Mixed_6b, 1x7", 16, 128, 128, (17, 17), (1, 7), 1, (0, 3)),
    Shape("densenet121_3x3_b16", "DenseNet-121, denseblock1 conv2", 16, 128, 32, (56, 56), 3, 1, 1),
    Shape("vit_patches_b16", "ViT-B/16, patch embedding", 16, 3, 768, (224, 224), 16, 16),
    Shape("efficientnet_stem_b16", "EfficientNet-B0, stem", 16, 3, 32, (224, 224), 3, 2, 1),
    Shape("efficientnet_expand_b16", "EfficientNet-B0, block 2 expansion", 16, 16, 96, (112, 112), 1),
    Shape("efficientnet_head_b16", "EfficientNet-B0, head", 16, 320, 1280, (7, 7), 1),
    # Depthwise.
    Shape("mobilenet1_dw_112", "MobileNet v1, first depthwise", 1, 32, 32, (112, 112), 3, 1, 1, groups=32),
    Shape("mobilenet1_dw_14_b16", "MobileNet v1, depthwise 14x14", 16, 512, 512, (14, 14), 3, 1, 1, groups=512),
    Shape("mobilenet1_pw_14_b16", "MobileNet v1, pointwise 14x14", 16, 512, 512, (14, 14), 1),
    Shape("mobilenet2_dw_down_b16", "MobileNet v2, depthwise stride 2", 16, 144, 144, (56, 56), 3, 2, 1, groups=144),
    Shape("mobilenet3_dw_5x5_b16", "MobileNet v3 large, depthwise 5x5", 16, 960, 960, (7, 7), 5, 1, 2, groups=960),
    Shape("efficientnet_dw_5x5_b16", "EfficientNet-B0, depthwise 5x5", 16, 240, 240, (28, 28), 5, 2, 2, groups=240),
    Shape("convnext_dw_7x7_b16", "ConvNeXt-T, stage 1 depthwise", 16, 96, 96, (56, 56), 7, 1, 3, groups=96),
    Shape("replknet_dw_31x31", "RepLKNet-31B, stage 2 depthwise", 1, 256, 256, (28, 28), 31, 1, 15, groups=256),
    Shape("vocos_dw_b16", "Vocos, ConvNeXt block", 16, 512, 512, (256,), 7, 1, 3, groups=512),
    Shape("conformer_dw_b16", "Conformer-M, depthwise", 16, 256, 256, (400,), 31, 1, 15, groups=256),
    Shape("x3d_dw", "X3D-M, depthwise 3x3x3", 1, 108, 108, (16, 28, 28), 3, 1, 1, groups=108),
    # Grouped.
    Shape("resnext50_l1_b16", "ResNeXt-50 32x4d, layer1", 16, 128, 128, (56, 56), 3, 1, 1, groups=32),
    Shape("resnext50_l3", "ResNeXt-50 32x4d, layer3", 1, 512, 512, (14, 14), 3, 1, 1, groups=32),
    Shape("resnext50_l4_b16", "ResNeXt-50 32x4d, layer4", 16, 1024, 1024, (7, 7), 3, 1, 1, groups=32),
    Shape("wav2vec2_position", "wav2vec 2.0, positional convolution", 1, 768, 768, (400,), 128, 1, 64, groups=16),
    Shape("stylegan2_modulated", "StyleGAN2, batch as groups, 32x32", 1, 2048, 2048, (32, 32), 3, 1, 1, groups=4),
    # Segmentation.
    Shape("unet_570", "U-Net, second layer, unpadded", 1, 64, 64, (570, 570), 3),
    Shape("unet_up_56", "U-Net, first up-convolution", 1, 512, 1024, (56, 56), 2, 2),
    Shape("unet_up_392", "U-Net, last up-convolution", 1, 64, 128, (392, 392), 2, 2),
    Shape("unet_classes", "U-Net, last layer to two classes", 1, 64, 2, (388, 388), 1),
    Shape("deeplab3_dilated_2", "DeepLab v3, layer4 conv2, rate 2", 1, 512, 512, (33, 33), 3, 1, 2, 2),
    Shape("deeplab3_aspp_12", "DeepLab v3, ASPP, rate 12", 1, 2048, 256, (33, 33), 3, 1, 12, 12),
    Shape("fcn8_up", "FCN-8s, last upsampling", 1, 21, 21, (512, 512), 16, 8, 4),
    # Generators and discriminators.
    Shape("dcgan_project_b16", "DCGAN, generator 1", 16, 512, 100, (4, 4), 4),
    Shape("dcgan_8_b16", "DCGAN, generator 2", 16, 256, 512, (8, 8), 4, 2, 1),
    Shape("dcgan_32_b16", "DCGAN, generator 4", 16, 64, 128, (32, 32), 4, 2, 1),
    Shape("dcgan_rgb_b16", "DCGAN, generator 5", 16, 3, 64, (64, 64), 4, 2, 1),
    Shape("stylegan2_up_64", "StyleGAN2, upsampling 32 to 65", 1, 512, 512, (65, 65), 3, 2),
    Shape("stylegan2_512", "StyleGAN2, 512x512", 1, 64, 64, (512, 512), 3, 1, 1),
    Shape("stylegan2_to_rgb", "StyleGAN2, toRGB at 1024x1024", 1, 32, 3, (1024, 1024), 1),
    Shape("pix2pix_rgb", "pix2pix, last up-convolution", 1, 3, 128, (256, 256), 4, 2, 1),
    Shape("cyclegan_tail", "CycleGAN, 7x7 tail", 1, 64, 3, (262, 262), 7),
    # Super-resolution.
    Shape("edsr_body_b16", "EDSR, body", 16, 256, 256, (48, 48), 3, 1, 1),
    Shape("edsr_head_b16", "EDSR, head", 16, 3, 256, (48, 48), 3, 1, 1),
    Shape("edsr_tail_b16", "EDSR, tail", 16, 256, 3, (96, 96), 3, 1, 1),
    Shape("fsrcnn_mapping", "FSRCNN, mapping", 1, 12, 12, (180, 320), 3, 1, 1),
    Shape("fsrcnn_up", "FSRCNN, deconvolution, scale 3", 1, 1, 56, (540, 960), 9, 3, 4),
    Shape("srresnet_tail", "SRResNet, 9x9 tail", 1, 64, 3, (384, 384), 9, 1, 4),
    Shape("vdsr_b16", "VDSR, body", 16, 64, 64, (41, 41), 3, 1, 1),
    # Sound.
    Shape("hifigan_pre", "HiFi-GAN V1, conv_pre", 1, 80, 512, (400,), 7, 1, 3),
    Shape("hifigan_up_1", "HiFi-GAN V1, ups.0", 1, 256, 512, (3200,), 16, 8, 4),
    Shape("hifigan_up_4", "HiFi-GAN V1, ups.3", 1, 32, 64, (102400,), 4, 2, 1),
    Shape("hifigan_res_11_5", "HiFi-GAN V1, resblock 3, dilation 5", 1, 256, 256, (3200,), 11, 1, 25, 5),
    Shape("hifigan_post", "HiFi-GAN V1, conv_post", 1, 32, 1, (102400,), 7, 1, 3),
    Shape("vocos_istft", "Vocos, inverse STFT as ConvTranspose", 1, 1, 1026, (65536,), 1024, 256, 384),
    Shape("vocos_istft_b16", "Vocos, inverse STFT as ConvTranspose", 16, 1, 1026, (16384,), 1024, 256, 384),
    Shape("wavenet_dilated", "WaveNet, dilation 512", 1, 64, 128, (16512,), 2, 1, 0, 512),
    Shape("wav2vec2_first", "wav2vec 2.0, feature encoder 1", 1, 1, 512, (160000,), 10, 5),
    Shape("hifigan_period", "HiFi-GAN, period discriminator 3", 16, 128, 512, (182, 5), (5, 1), (3, 1), (2, 0)),
    # Volumes and video.
    Shape("vnet_5x5x5", "V-Net, stage 2", 1, 32, 32, (32, 64, 64), 5, 1, 2),
    Shape("vnet_down", "V-Net, first down-convolution", 1, 16, 32, (64, 128, 128), 2, 2),
    Shape("vnet_up", "V-Net, third up-convolution", 1, 64, 256, (16, 32, 32), 2, 2),
    Shape("unet3d_3x3x3", "3-D U-Net, analysis path 2", 1, 64, 128, (32, 34, 34), 3),
    Shape("unet3d_3x3x3_s1", "3-D U-Net, synthesis path", 1, 64, 64, (32, 32, 32), 3, 1, 1),
    Shape("c3d_conv1", "C3D, conv1a", 1, 3, 64, (16, 112, 112), 3, 1, 1),
    Shape("i3d_stem", "I3D, stem", 1, 3, 64, (16, 224, 224), 7, 2, 3),
    Shape("r2plus1d_temporal", "R(2+1)D, layer1 temporal", 1, 144, 64, (16, 56, 56), (3, 1, 1), 1, (1, 0, 0)),
)

ODD = (
    Shape("odd_dilated_depthwise", "depthwise with dilation", 4, 96, 96, (56, 56), 3, 1, 4, 4, 96),
    Shape("odd_dilated_depthwise_stride", "depthwise with dilation and stride", 4, 80, 80, (112, 112), 3, 2, 3, 3, 80),
    Shape("odd_multiplier", "depthwise with two outputs a channel", 4, 64, 128, (112, 112), 3, 1, 1, groups=64),
    Shape("odd_stride_over_kernel", "stride larger than the kernel", 4, 64, 96, (225, 225), 2, 5),
    Shape("odd_stride_over_kernel_1x1", "1x1 with stride 3", 4, 128, 96, (151, 151), 1, 3),
    Shape("odd_one_channel", "one channel on both sides", 4, 1, 1, (512, 512), 5, 1, 2),
    Shape("odd_two_to_three", "two channels to three", 4, 2, 3, (512, 512), 3, 1, 1),
    Shape("odd_three_to_three", "an RGB filter, 15x15", 1, 3, 3, (512, 512), 15, 1, 7),
    Shape("odd_primes", "prime channels and extents", 2, 37, 61, (113, 97), 3, 1, 1),
    Shape("odd_groups_of_5_7", "groups of 5 and of 7 channels", 4, 15, 21, (112, 112), 3, 1, 1, groups=3),
    Shape("odd_groups_of_33", "groups of 33 channels", 1, 99, 99, (56, 56), 5, 1, 2, groups=3),
    Shape("odd_pads", "padding at one end only", 2, 64, 64, (61, 61), 4, 1, (3, 0), pad_end=(0, 3)),
    Shape("odd_pads_beyond", "more padding than kernel", 2, 48, 48, (40, 40), 3, 1, 6),
    Shape(
        "odd_steps", "another stride and dilation on each axis", 2, 48, 80, (90, 121), (5, 2), (2, 3), (4, 1), (3, 1)
    ),
    Shape("odd_whole_extent", "the kernel as large as the tensor", 16, 128, 256, (12, 12), 12),
    Shape("odd_narrow", "one column wide", 2, 64, 64, (4096, 1), (9, 1), 1, (4, 0)),
    Shape("odd_pitch_4096", "rows of exactly 4096 bytes", 1, 1024, 64, (28, 28), 3, 1, 1),
    Shape("odd_tiny_batch", "a batch of tiny images", 256, 24, 40, (5, 5), 3, 1, 1),
    Shape("odd_long", "one channel, a prime million long", 1, 1, 16, (1000003,), 21, 4, 10),
    Shape("odd_volume", "7 and 13 channels in 3-D, stride 2", 1, 7, 13, (33, 65, 65), 3, 2, 1),
    Shape("odd_volume_dilated", "3-D with dilation in depth only", 1, 24, 24, (24, 48, 48), 3, 1, (2, 1, 1), (2, 1, 1)),
)

TABLE = (*NETWORKS, *ODD)
CELL = Shape("one_cell", "the smallest problem, which only costs the call", 1, 1, 1, (1, 1), 1)
SHAPES = {shape.name: shape for shape in (*TABLE, CELL)}
