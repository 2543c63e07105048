// Secondary units of SenML and how they become primary ones (RFC 8798 §3). The registry itself is data: units.json.

import registry from './units.json' with { type: 'json' }

/** primary value = value × multiply ÷ divide + offset. Two factors, so that 1/1000 and 1/3.6 round once, by a division. */
export interface SecondaryUnit {
  readonly unit: string
  readonly primary: string
  readonly multiply: number
  readonly divide: number
  readonly offset: number
}

/** By the unit's symbol. A unit that is not here, known or not, is kept as it is. */
export const secondaryUnits: ReadonlyMap<string, SecondaryUnit> = new Map(registry.secondary.map(unit => [unit.unit, unit]))

/** The symbols of the primary registry (RFC 8428 §12.1, RFC 8798 §2). */
export const primaryUnits: ReadonlySet<string> = new Set(registry.primary)
