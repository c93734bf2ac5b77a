#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small CNN, trained on a packed dataset with classes: python examples/train_torch.py OUT [EPOCHS [WORKERS]]"""
import sys

import torch
from torch import nn

import slimset.torch


def network(classes):
    layers = []
    for n_in, n_out in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(n_in, n_out, 3, stride=2, padding=1), nn.BatchNorm2d(n_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def main(out, epochs=2, workers=2):
    torch.manual_seed(1)
    train = slimset.torch.Dataset(out, split="train", decode="torchrgb8",
                                  crop=slimset.torch.RandomResizedCrop(scale=(0.5, 1)), size=64)
    test = slimset.torch.Dataset(out, split="val", decode="torchrgb8", size=64)
    sampler = slimset.torch.ShardSampler(train, seed=1)
    loader = torch.utils.data.DataLoader(train, batch_size=8, sampler=sampler, num_workers=workers)
    model = network(len(train.classes))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.float() / 255 - 0.5), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(labels)
        model.eval()
        with torch.no_grad():
            right = sum(int((model(x.float() / 255 - 0.5).argmax(1) == y).sum())
                        for x, y in torch.utils.data.DataLoader(test, batch_size=8))
        print(f"epoch {epoch}: loss {total / len(train):.3f}, {right} of {len(test)} right")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
