import type * as files from 'node:fs';

export function newestSource(from: Pick<typeof files, 'readdirSync' | 'statSync'>, root: string): number;
