"""Three trainings written with asyncgrad; `programs_in_pytorch` holds the same ones in PyTorch, to compare lines."""

from __future__ import annotations

import numpy as np

import asyncgrad as ag
from asyncgrad import nn, optim


async def digits(images, labels, epochs):
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(epochs):
        async for x, y in ag.data.batches((images, labels), 32, shuffle=True):
            optimizer.zero_grad()
            loss = nn.cross_entropy(model(x), y)
            await loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


class Transformer(nn.Module):
    def __init__(self, characters, context):
        self.characters = nn.Embedding(characters, 16)
        self.positions = nn.Embedding(context, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, characters)

    def forward(self, x):
        length = x.shape[1]
        future = np.triu(np.ones((length, length), bool), 1)
        x = self.characters(x) + self.positions(np.arange(length))
        return self.head(self.layer(x, src_mask=future))


class Recurrent(nn.Module):
    def __init__(self, characters):
        self.table = nn.Embedding(characters, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, characters)

    def forward(self, x):
        states, _ = self.lstm(self.table(x))
        return self.head(states)


async def fit(model, characters, following, epochs):
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    schedule = optim.schedule.CosineAnnealingLR(optimizer, epochs)
    losses = []
    for _ in range(epochs):
        async for x, y in ag.data.batches((characters, following), 16, shuffle=True):
            optimizer.zero_grad()
            loss = nn.cross_entropy(model(x).swapaxes(1, 2), y)
            await loss.backward()
            optim.clip_grad_norm(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    return losses
