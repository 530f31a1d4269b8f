"""The trainings of `programs_here`, written with PyTorch."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def digits(images, labels, epochs):
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    dataset = TensorDataset(torch.tensor(images, dtype=torch.float32), torch.tensor(labels))
    losses = []
    for _ in range(epochs):
        for x, y in DataLoader(dataset, 32, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


class Transformer(nn.Module):
    def __init__(self, characters, context):
        super().__init__()
        self.characters = nn.Embedding(characters, 16)
        self.positions = nn.Embedding(context, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, characters)

    def forward(self, x):
        length = x.shape[1]
        future = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        x = self.characters(x) + self.positions(torch.arange(length))
        return self.head(self.layer(x, src_mask=future))


class Recurrent(nn.Module):
    def __init__(self, characters):
        super().__init__()
        self.table = nn.Embedding(characters, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.head = nn.Linear(32, characters)

    def forward(self, x):
        states, _ = self.lstm(self.table(x))
        return self.head(states)


def fit(model, characters, following, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    dataset = TensorDataset(torch.tensor(characters), torch.tensor(following))
    losses = []
    for _ in range(epochs):
        for x, y in DataLoader(dataset, 16, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x).swapaxes(1, 2), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    return losses
