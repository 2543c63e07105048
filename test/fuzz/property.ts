// A property: something that holds for every input whatever, and how it says that it does not.

import type { Random } from './random.ts'

export interface Property {
  /** What holds, in a few words: `only a DecodeError is thrown, and it leaves nothing`. */
  readonly name: string
  /**
   * @param input is not changed
   * @param random for what the property chooses by itself; the same one for the same case
   * @throws whatever, where it does not hold
   */
  holds(input: Uint8Array, random: Random): void
}

/** @throws Error with the sentence, where there is one: what a comparison found */
export function must(found: string | undefined): void {
  if (found !== undefined) throw new Error(found)
}

/** Two values as a comparison shows them, cut where they are long. */
export function differ(what: string, one: unknown, other: unknown): string {
  return `${what}: ${shown(one)} against ${shown(other)}`
}

export function shown(value: unknown): string {
  const text =
    typeof value === 'bigint'
      ? `${value}n`
      : typeof value === 'number'
        ? String(value)
        : (JSON.stringify(value, withBigints) ?? 'undefined')
  return text.length > 200 ? `${text.slice(0, 200)}…` : text
}

function withBigints(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}n` : value
}
