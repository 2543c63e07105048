// Converts secondary units of SenML to primary ones (RFC 8798 §3). The registry is in units.json.

import registry from './units.json' with { type: 'json' }

/** primary value = value × multiply ÷ divide + offset. Two factors, so that 1/1000 and 1/3.6 round only once, in the division. */
export interface SecondaryUnit {
  readonly unit: string
  readonly primary: string
  readonly multiply: number
  readonly divide: number
  readonly offset: number
}

/** By the unit's symbol. Any other unit, known or not, is kept unchanged. */
export const secondaryUnits: ReadonlyMap<string, SecondaryUnit> = new Map(registry.secondary.map(unit => [unit.unit, unit]))
