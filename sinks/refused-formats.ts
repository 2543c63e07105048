// Formats that were refused a moment ago: they are not asked for again at once, and not for ever either, since an operator may raise a limit.

import type { FormatRefusal, WantedFormat } from './format-registry.ts'

const rememberedMs = 5_000
const rememberedMax = 10_000

interface Remembered {
  readonly refusal: FormatRefusal
  /** Those that brought it: another one may be allowed to. */
  readonly channels: ReadonlySet<string>
  readonly untilMs: number
}

export class RefusedFormats {
  readonly #nowMs: () => number
  /** In the order in which they end. */
  readonly #formats = new Map<string, Remembered>()

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs
  }

  /** Undefined where it is not known to be refused. */
  find({ format, channels }: WantedFormat): FormatRefusal | undefined {
    const remembered = this.#formats.get(format)
    if (remembered === undefined || this.#nowMs() >= remembered.untilMs) return undefined
    for (const channel of channels) if (!remembered.channels.has(channel)) return undefined
    return remembered.refusal
  }

  /** Of the wanted ones that are not known: which were refused lately, and which have to be asked for. */
  sort(
    wanted: readonly WantedFormat[],
    isKnown: (format: string) => boolean,
  ): { readonly refused: Map<string, FormatRefusal>; readonly missing: WantedFormat[] } {
    const refused = new Map<string, FormatRefusal>()
    const missing: WantedFormat[] = []
    for (const want of wanted) {
      if (isKnown(want.format)) continue
      const refusal = this.find(want)
      if (refusal === undefined) missing.push(want)
      else refused.set(want.format, refusal)
    }
    return { refused, missing }
  }

  add({ format, channels }: WantedFormat, refusal: FormatRefusal): void {
    this.#formats.delete(format)
    if (this.#formats.size >= rememberedMax) this.#formats.delete(this.#formats.keys().next().value!)
    this.#formats.set(format, { refusal, channels, untilMs: this.#nowMs() + rememberedMs })
  }

  clear(): void {
    this.#formats.clear()
  }
}
