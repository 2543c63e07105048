// The lists in which a client says what it prefers: values with a weight each (RFC 9110 §12.4.2), of Accept and of Accept-Encoding.

export interface Weighted {
  /** In lower case, without its parameters. */
  readonly value: string
  /** 0, which is not wanted, to 1; 1 also where none is given, or one that is none. */
  readonly weight: number
}

/** Nobody names more, and a long header costs no more than a short one. */
const valuesMax = 20

export function weightedValues(header: string): Weighted[] {
  return header.split(',', valuesMax).map(text => {
    const [value = '', ...parameters] = text.split(';').map(part => part.trim().toLowerCase())
    const given = parameters.find(parameter => parameter.startsWith('q='))?.slice(2)
    const weight = given === undefined || given === '' ? 1 : Number(given)
    return { value, weight: weight >= 0 && weight <= 1 ? weight : 1 }
  })
}
