// What a mapping makes: the things, channels and bootstrap content of a layout (SPEC §2, provisioning layout).

import type { Metadata } from '../entity.ts'

export { fillContent } from './content.ts'

/** A thing of the layout. */
export interface LayoutThing {
  readonly name: string
  readonly metadata: Metadata
  /** The one that the external id belongs to: its metadata has the key `external_id`. One thing of a layout, or none where no bootstrap configuration is made. */
  readonly isExternal: boolean
}

export interface LayoutChannel {
  readonly name: string
  /** `type` is `control`, `data` or `export` for the edge agent. */
  readonly metadata: Metadata
}

/** A JSON tree with the types of the TOML file kept: text, integers, booleans, arrays, tables. */
export type ContentTree = { readonly [key: string]: unknown }

export interface Layout {
  readonly things: readonly LayoutThing[]
  readonly channels: readonly LayoutChannel[]
  readonly bootstrap: {
    /** Whether a bootstrap configuration is made. */
    readonly isProvisioned: boolean
    /** Whether the things are connected to the channels, which is state 1 of the configuration. */
    readonly isWhitelisted: boolean
    /** Whether a certificate is issued for each thing. */
    readonly hasCertificates: boolean
    /** Absent: none. */
    readonly content?: ContentTree
  }
  /** `rsaBits` counts for `rsa` alone. */
  readonly certificate: { readonly ttlSeconds: number; readonly keyType: 'rsa' | 'ec'; readonly rsaBits: 2048 | 3072 | 4096 }
}

/** What the placeholders of the content stand for. */
export interface ContentValues {
  readonly externalId: string
  readonly thing: { readonly id: string; readonly key: string; readonly name: string }
  /** In the order of the layout. */
  readonly channels: readonly { readonly id: string; readonly name: string; readonly metadata: Metadata }[]
  /** Absent, and without a key: their placeholders are filled with an empty text. */
  readonly certificate?: { readonly clientCert: string; readonly clientKey?: string; readonly caCert: string }
}

/** Without a layout file: one thing, and the two channels that the edge agent needs (SPEC §2). */
export const defaultLayout: Layout = {
  things: [{ name: 'thing', metadata: { external_id: '' }, isExternal: true }],
  channels: [
    { name: 'control-channel', metadata: { type: 'control' } },
    { name: 'data-channel', metadata: { type: 'data' } },
  ],
  bootstrap: { isProvisioned: true, isWhitelisted: true, hasCertificates: false },
  certificate: { ttlSeconds: 2_400 * 3_600, keyType: 'rsa', rsaBits: 4096 },
}
