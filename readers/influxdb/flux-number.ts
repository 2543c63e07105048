// Numbers in Flux, whose literals have neither a sign nor an exponent.

import type { Comparator } from '../query.ts'

const operators: Readonly<Record<Comparator, string>> = { eq: '==', lt: '<', le: '<=', gt: '>', ge: '>=' }

/** Two filters, empty where there is none: what the storage compares, and what Flux then compares row by row. */
export interface Compared {
  readonly filter: string
  readonly rowFilter: string
}

/** Keeps the rows whose `_value` compares so. The storage compares with literals alone, and a negative number is none. */
export function fluxCompared(comparator: Comparator, number: number): Compared {
  const operator = operators[comparator]
  if (number >= 0) return { filter: ` |> filter(fn: (r) => r._value ${operator} ${fluxNumber(number)})`, rowFilter: '' }
  const isAbove = comparator === 'gt' || comparator === 'ge'
  return {
    filter: isAbove ? '' : ' |> filter(fn: (r) => r._value < 0.0)',
    rowFilter: ` |> filter(fn: (r) => r._value ${operator} -${fluxNumber(number)})`,
  }
}

/** The magnitude: all digits of the shortest text that is this double, with a point and without an exponent. */
function fluxNumber(number: number): string {
  const [, whole = '', fraction = '', exponent = '0'] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(Math.abs(number)))!
  const digits = whole + fraction
  const point = whole.length + Number(exponent)
  if (point <= 0) return `0.${'0'.repeat(-point)}${digits}`
  return `${digits.slice(0, point).padEnd(point, '0')}.${digits.slice(point) || '0'}`
}
