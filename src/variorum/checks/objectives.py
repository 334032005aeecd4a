"""What objectives ask for, and what their losses come to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from variorum.builder import build
from variorum.checks.finding import Finding, equal, near
from variorum.checks.subjects import END, FIRST, PAD, STOP, SYMBOLS, nano, words
from variorum.family import find
from variorum.objectives import Corrupted, Symbols, objective_for
from variorum.objectives.base import IGNORED
from variorum.objectives.distillation import softened
from variorum.objectives.masked import MaskedLM
from variorum.objectives.replaced import JUDGED
from variorum.parts.experts import balance_loss
from variorum.parts.heads import head_loss
from variorum.spec.recipe import Masking
from variorum.spec.size import supervised_share

TEXTS, LENGTH, SENTENCE = 64, 60, 6
SPECIAL = torch.tensor(sorted(SYMBOLS.special))
SIGNALS = ("bert", "modernbert", "gpt2", "xlnet", "t5", "bart", "pegasus", "electra", "distilbert")
WIDE = Symbols(vocab=1000, special=frozenset(range(5)), mask=4, pad=0, end=3)
MASKED, EPOCHS = 20, (4, 10, 40)
TEMPERATURES, HOT = (1.0, 2.0, 4.0, 8.0), (8.0, 64.0)


def signal_density() -> Iterator[Finding]:
    """C20: which share of a text's tokens gives a loss, objective by objective."""
    for name in SIGNALS:
        spec = nano(find(name))
        teacher = build(spec, head="masked_lm") if spec.objective.kind == "distillation" else None
        objective = objective_for(spec.set({"objective.pair": None}), SYMBOLS, teacher=teacher)
        wrapped = spec.objective.kind not in ("causal_lm", "span_corruption")
        rows = text_rows(wrapped=wrapped)
        example = objective.corrupt(rows, torch.Generator().manual_seed(0))
        own, told = own_tokens(rows), supervised_share(spec.objective)
        assert told is not None
        how = f"{spec.objective.kind}: tokens asked for over the {own:,} that {TEXTS} texts have"
        yield near(name, _asked(example) / own, told, how, within=0.03)


def _asked(example: Corrupted) -> int:
    """How many of the texts' own tokens give a loss."""
    if example.counts:
        (judged,) = set(example.counts.values())
        return judged - 2 * TEXTS  # the two special tokens of each text are judged too
    return int(((example.targets != IGNORED) & ~torch.isin(example.targets, SPECIAL)).sum())


def own_tokens(rows: dict[str, Tensor]) -> int:
    """Tokens that are neither padding nor special."""
    return int((~torch.isin(rows["input_ids"], SPECIAL)).sum())


def text_rows(*, wrapped: bool) -> dict[str, Tensor]:
    """Texts of short sentences, of many lengths; with special tokens around them where they are ``wrapped``."""
    ids, lengths = words(TEXTS, LENGTH), LENGTH - torch.arange(TEXTS) % 20
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    ids[:, SENTENCE - 1 :: SENTENCE] = STOP
    if wrapped:
        ids[:, 0] = FIRST
        ids[torch.arange(TEXTS), lengths - 1] = END
    return {"input_ids": ids.masked_fill(mask == 0, PAD), "attention_mask": mask}


def replaced_token_positions() -> Iterator[Finding]:
    """C9: replaced token detection learns from every real token, its generator from 15 % of them."""
    spec = nano(find("electra"))
    objective = objective_for(spec, SYMBOLS)
    model, rows = build(spec, head=objective.requires), text_rows(wrapped=True)
    verdicts: list[Tensor] = []
    watch = model.heads["replaced_token"].register_forward_hook(lambda head, given, out: verdicts.append(out))
    example = objective.corrupt(rows, torch.Generator().manual_seed(0))
    loss = objective.loss(model, example).total
    watch.remove()
    judged = sum(int((grad != 0).sum()) for grad in torch.autograd.grad(loss, verdicts))
    real, own = int(rows["attention_mask"].sum()), own_tokens(rows)
    how = f"verdicts with a gradient from the loss, of {TEXTS} texts; often told as all positions, padding too"
    yield equal("tokens that are judged: all but padding", judged, real, how)
    yield equal("tokens that the loss divides by", example.counts[JUDGED], real, "the objective's own count")
    how = f"hidden tokens over the {own:,} that are neither padding nor special"
    yield near("the generator's share", example.count / own, 0.15, how, within=0.01)


def dynamic_masks() -> Iterator[Finding]:
    """C10: masks drawn anew hardly ever repeat, and reach every token in the end."""
    rows = torch.randint(5, 1000, (MASKED,), generator=torch.Generator().manual_seed(3)).expand(20_000, -1)
    alike = _alike(masks(rows, Masking()))
    how = f"pairs among 20,000 masks of {MASKED} tokens: three are hidden each time, 1 / C(20, 3)"
    yield near("two masks are one", alike, 1 / math.comb(MASKED, 3), how, within=5e-5)
    drawn = torch.rand(rows.shape, generator=torch.Generator().manual_seed(0)) < 0.15
    how = "the same where each token is hidden by its own draw, (0.85² + 0.15²)²⁰, as it is often told"
    yield near("two independent masks are one", _alike(drawn), (0.85**2 + 0.15**2) ** MASKED, how, within=1e-4)
    seen = masks(rows[: 40 * 400], Masking()).view(400, 40, MASKED)
    covered = [float(seen[:, :epochs].any(1).double().mean()) for epochs in EPOCHS]
    how = f"tokens hidden at least once in {', '.join(map(str, EPOCHS))} epochs, 400 texts: 1 - 0.85^E"
    yield near("coverage of fresh masks", covered, [1 - 0.85**epochs for epochs in EPOCHS], how, within=0.015)
    once = masks(rows[:400], Masking(copies=1))
    how = "the same text in 400 epochs with one mask for good; BERT had ten, and saw each four times in 40 epochs"
    yield near("coverage of one fixed mask", float(once.any(0).double().mean()), 0.15, how, within=1e-9)
    ten = len({tuple(mask) for mask in masks(rows[:400], Masking(copies=10)).tolist()})
    yield equal("masks of a text that has ten", ten, 10, "distinct ones in 400 epochs")


def masks(rows: Tensor, masking: Masking, seed: int = 0) -> Tensor:
    """Which tokens are hidden, bool [B, T]."""
    example = MaskedLM(masking, WIDE).corrupt({"input_ids": rows}, torch.Generator().manual_seed(seed))
    return example.targets != IGNORED


def _alike(drawn: Tensor) -> float:
    """The share of pairs of rows that are the same."""
    _, counts = drawn.unique(dim=0, return_counts=True)
    counts = counts.double()
    return float((counts * (counts - 1)).sum() / (len(drawn) * (len(drawn) - 1)))


def soft_targets() -> Iterator[Finding]:
    """D3: temperature flattens a teacher's answer and keeps its order; T² keeps the gradient."""
    scores = torch.tensor([4.0, 2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
    soft = torch.stack([(scores / temperature).softmax(-1) for temperature in TEMPERATURES])
    entropies = torch.special.entr(soft).sum(-1).tolist()
    how = f"entropy of softmax(scores / T) at T = {', '.join(f'{t:g}' for t in TEMPERATURES)}, in nats"
    rises = all(a < b for a, b in pairwise(entropies))
    yield Finding(claim="entropy rises", found=entropies, expected="rising", holds=rises, how=how)
    kept = {tuple(order) for order in soft.argsort(-1, descending=True).tolist()}
    yield equal("the order of the classes", sorted(kept), [(0, 1, 2, 3, 4)], "the same at each T, the best one first")
    student, teacher = torch.randn(2, 200, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with_it = [_gradient(softened, student, teacher, temperature) for temperature in HOT]
    how = f"gradient norm at T = {HOT[1]:g} over T = {HOT[0]:g}, of 200 rows of 10 classes of N(0, 1) scores"
    yield near("T² · KL: the gradient tends to a constant", with_it[1] / with_it[0], 1.0, how, within=0.01)
    limit = ((student - student.mean(-1, keepdim=True)) - (teacher - teacher.mean(-1, keepdim=True))) / 10
    how = f"gradient norm at T = {HOT[1]:g} over that of the difference of the centred scores, by the number of classes"
    yield near("that constant is the difference of the scores", with_it[1] / float(limit.norm()), 1.0, how, within=0.01)
    without = [_gradient(_divergence, student, teacher, temperature) for temperature in HOT]
    how = f"gradient norm of KL alone at T = {HOT[1]:g} over T = {HOT[0]:g}: (8 / 64)²"
    yield near("without T² it falls as 1 / T²", without[1] / without[0], 1 / 64, how, within=2e-4)


def _divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """KL(teacher ‖ student) at a temperature, summed over rows."""
    told, mine = ((scores / temperature).log_softmax(-1) for scores in (teacher, student))
    return (told.exp() * (told - mine)).sum()


def _gradient(
    loss: Callable[[Tensor, Tensor, float], Tensor], student: Tensor, teacher: Tensor, temperature: float
) -> float:
    """The norm of a loss's gradient on the student's scores."""
    scores = student.clone().requires_grad_()
    (grad,) = torch.autograd.grad(loss(scores, teacher, temperature), scores)
    return float(grad.norm())


def loss_values() -> Iterator[Finding]:
    """C24: losses on numbers small enough to work out by hand."""
    three = math.log(3.0)
    student, teacher = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    share = 1 / (1 + math.exp(-1.0))
    by_hand = 4 * (share * math.log(2 * share) + (1 - share) * math.log(2 * (1 - share)))
    how = "T² · KL at T = 2 of scores (2, 0) from (0, 0): 4 · (p ln 2p + q ln 2q), p = 1 / (1 + 1/e)"
    yield near("distillation", softened(student, teacher, 2.0).item(), by_hand, how, within=1e-6)
    binary = F.binary_cross_entropy_with_logits(torch.tensor(three), torch.tensor(1.0)).item()
    yield near("binary cross-entropy", binary, -math.log(0.75), "score ln 3, label 1: -ln 3/4", within=1e-6)
    verdicts, labels = torch.tensor([[three, -three, 0.0, 9.0]]), torch.tensor([[1, 0, 1, -100]])
    judged = head_loss("replaced_token", verdicts, labels).item()
    how = "scores ln 3, -ln 3, 0 for replaced, original, replaced, and a padding that counts for nothing"
    yield near("replaced token detection", judged, (2 * -math.log(0.75) + math.log(2)) / 3, how, within=1e-6)
    pairs, order = torch.tensor([[math.log(4.0), 0.0], [0.0, 0.0]]), torch.tensor([0, 1])
    followed = head_loss("next_sentence", pairs, order).item()
    how = "scores (ln 4, 0) for a true pair and (0, 0) for another: the mean of -ln 4/5 and ln 2"
    yield near("next sentence", followed, (-math.log(0.8) + math.log(2)) / 2, how, within=1e-6)
    even = (torch.full((8, 8), 1 / 8), torch.arange(8)[:, None])
    one = (F.one_hot(torch.zeros(8, dtype=torch.long), 8).float(), torch.zeros(8, 1, dtype=torch.long))
    balance = [balance_loss([use]).item() for use in (even, one)]
    how = "eight tokens spread over eight experts, and all at one: E · Σ f P, to be weighed by α"
    yield near("balance: even, and collapsed", balance, [1.0, 8.0], how, within=1e-6)
