// A property: something that holds for every input, and how a violation is reported.

import type { Random } from './random.ts'

export interface Property {
  /** A short description: `only a DecodeError is thrown, and it leaves nothing`. */
  readonly name: string
  /**
   * @param input is not changed
   * @param random for choices of the property; the same for the same case
   * @throws any error if it does not hold
   */
  holds(input: Uint8Array, random: Random): void
}

/** @throws Error with the difference that a comparison found, if there is one */
export function must(found: string | undefined): void {
  if (found !== undefined) throw new Error(found)
}

/** Describes two different values; long ones are cut. */
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
