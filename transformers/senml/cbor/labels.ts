// The integer labels of SenML CBOR (RFC 8428 §6, table 4). The table is closed: extensions use text, which `readLabel` in cbor.ts ignores.

import { Label } from '../record.ts'

/** From −6 to 8. */
const names = ['bs', 'bv', 'bu', 'bt', 'bn', 'bver', 'n', 'u', 'v', 'vs', 'vb', 's', 't', 'ut', 'vd'] as const
const first = -6

/** The integer of each label by its name. */
export const integerOfLabel: ReadonlyMap<string, number> = new Map(names.map((name, at) => [name, first + at]))

/** The name of each label by its integer. */
export const nameOfInteger: ReadonlyMap<number, string> = new Map(names.map((name, at) => [first + at, name]))

/** The bit of each label by the first byte of its integer in the shortest form; 0 for any other byte. */
export const bitOfByte = new Uint16Array(256)
for (const [name, integer] of integerOfLabel) bitOfByte[integer < 0 ? 0x1f - integer : integer] = Label[name as keyof typeof Label]

/** The bit of a label by its integer; 0 for an unknown integer. */
export function bitOfInteger(integer: number): number {
  const name = nameOfInteger.get(integer)
  return name === undefined ? 0 : Label[name as keyof typeof Label]
}

/** The name of a label by its bit. */
export function nameOfBit(bit: number): string {
  return names.find(name => Label[name] === bit) ?? ''
}
