// Offset and limit of every list of the control plane (SPEC §8).

import { Type } from 'typebox'

export const pageQuery = {
  offset: Type.Integer({ default: 0, minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'How many to leave out from the start.' }),
  limit: Type.Integer({ default: 10, minimum: 1, maximum: 100, description: 'How many to give at most.' }),
}

export const pageAnswer = {
  total: Type.Integer({ description: 'How many there are in all.' }),
  offset: Type.Integer(),
  limit: Type.Integer(),
}

export interface PageRequest {
  readonly offset: number
  readonly limit: number
}

/** `total` counts what matches; `items` are those of the page. */
export interface Page<Item> {
  readonly total: number
  readonly items: readonly Item[]
}
