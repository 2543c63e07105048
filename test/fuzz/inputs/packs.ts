// Packs of SenML before they are written in either wire format: mostly valid, or with one invalid record.

import type { Random } from '../random.ts'
import { anyNumber, anyText } from './texts.ts'

export type PackValue = null | boolean | number | string | Uint8Array | readonly PackValue[] | { readonly [key: string]: PackValue }

/** The labels of a record with their values, in the order in which they are written. One may occur twice. */
export type Fields = [label: string, value: PackValue][]

const baseNames = ['urn:dev:ow:10e2073a01080063:', 'urn:dev:mac:0024befffe804ff1/', 'a', 'm:', 'Z9.-_/']
const names = ['temperature', 'humidity', 'voltage', 'current', 'a', '0', 'x'.repeat(70)]
const units = ['V', 'Cel', '%RH', 'km/h', 'kWh', 'dBm', '/100', 'ms', '', '°C', '😀', 'unknown']

/** A number that stays within a double in every unit, and with a base added. */
function measured(random: Random): number {
  const number = anyNumber(random)
  return Math.abs(number) < 1e290 ? number : number / 1e30
}

function duration(random: Random): number {
  return (random.below(2000) - 1000) / random.pick([1, 1, 10, 1000, 3])
}

/** A valid record. The first of a pack may have a version. */
export function rightRecord(random: Random, index: number): Fields {
  const fields: Fields = []
  if (random.oneIn(index === 0 ? 2 : 12)) fields.push(['bn', random.oneIn(8) ? '' : random.pick(baseNames)])
  if (random.oneIn(index === 0 ? 2 : 16))
    fields.push(['bt', random.oneIn(6) ? 0 : 1_690_000_000 + random.below(10_000_000) + (random.oneIn(2) ? 0.001 : 0)])
  if (random.oneIn(12)) fields.push(['bu', random.pick(units)])
  if (random.oneIn(16)) fields.push(['bv', random.oneIn(4) ? 0 : measured(random)])
  if (random.oneIn(24)) fields.push(['bs', random.oneIn(4) ? 0 : measured(random)])
  if (index === 0 && random.oneIn(6)) fields.push(['bver', random.pick([10, 26, 26, 5, 1])])
  if (fields.length > 0 && random.oneIn(10)) return fields
  fields.push(['n', random.oneIn(4) ? anyName(random) : random.pick(names)])
  if (random.oneIn(2)) fields.push(['u', random.pick(units)])
  if (random.oneIn(3)) fields.push(['t', duration(random)])
  if (random.oneIn(12)) fields.push(['ut', Math.abs(measured(random))])
  if (random.oneIn(12)) fields.push(['s', measured(random)])
  fields.push(valueField(random))
  if (random.oneIn(16)) fields.push([random.pick(['x', 'foo', '', 'N', '_a', 'ünit', 'bnn']), ignored(random, 2)])
  return random.oneIn(3) ? shuffled(random, fields) : fields
}

function anyName(random: Random): string {
  let name = random.pick(['a', 'B', '7'])
  for (let left = random.mostlySmall(80); left > 0; left--) name += random.pick(['a', 'q', 'Z', '0', '9', '-', ':', '.', '/', '_'])
  return name
}

function valueField(random: Random): [string, PackValue] {
  switch (random.below(6)) {
    case 0:
      return ['vs', anyText(random)]
    case 1:
      return ['vb', random.oneIn(2)]
    case 2:
      return ['vd', random.bytes(random.mostlySmall(80))]
    default:
      return ['v', measured(random)]
  }
}

/** The content of an unknown label: with as many levels as CBOR allows there. */
function ignored(random: Random, levels: number): PackValue {
  switch (random.below(levels > 0 ? 7 : 5)) {
    case 0:
      return null
    case 1:
      return random.oneIn(2)
    case 2:
      return anyNumber(random)
    case 3:
    case 4:
      return anyText(random)
    case 5:
      return Array.from({ length: random.below(4) }, () => ignored(random, levels - 1))
    default:
      return Object.fromEntries(Array.from({ length: random.below(3) }, (_, at) => [`k${at}`, ignored(random, levels - 1)]))
  }
}

/** Fields that make a record invalid, or may do so. */
const odd: readonly Fields[] = [
  [['must_', 1]],
  [['__proto__', 1]],
  [['bver', 11]],
  [['bver', 10.5]],
  [['bver', -1]],
  [['n', ':a']],
  [['n', 'a b']],
  [['n', 'ü']],
  [['n', '']],
  [['bn', '-']],
  [['v', '1']],
  [['v', null]],
  [['vb', 1]],
  [['vs', 1]],
  [['vs', 'a\0b']],
  [['u', 'a\0']],
  [['vd', 'AA==']],
  [['vd', 'A']],
  [['t', 1e300]],
  [['t', -(2 ** 53)]],
  [['t', 2 ** 28]],
  [['bt', 2 ** 28 - 1]],
  [['bt', 3e9]],
  [
    ['v', 1e308],
    ['bv', 1e308],
  ],
  [
    ['s', 1.7e308],
    ['bs', 1.7e308],
  ],
  [
    ['bver', 26],
    ['u', 'Mbit/s'],
    ['v', 1e305],
  ],
  [
    ['vs', 'x'],
    ['v', 1],
  ],
  [['N', 1]],
  [],
]

/** A record that is probably refused. */
function oddRecord(random: Random, index: number): Fields {
  const strange = random.pick(odd)
  return random.oneIn(4) ? [...strange] : [...rightRecord(random, index), ...strange]
}

/** Creates the records of a pack, one after another. */
export interface PackMaker {
  next(): Fields
}

/** Packs of which one in `oddOneIn` has an odd record among the first few. */
export function openPackMaker(random: Random, oddOneIn: number): PackMaker {
  const oddAt = random.oneIn(oddOneIn) ? random.mostlySmall(12) : -1
  let index = 0
  return { next: () => (index === oddAt ? oddRecord(random, index++) : rightRecord(random, index++)) }
}

export function shuffled<T>(random: Random, from: readonly T[]): T[] {
  const items = [...from]
  for (let at = items.length - 1; at > 0; at--) {
    const other = random.below(at + 1)
    const item = items[at]!
    items[at] = items[other]!
    items[other] = item
  }
  return items
}
